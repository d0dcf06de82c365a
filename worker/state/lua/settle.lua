-- Record what came of an attempt; with an end, the job ends here. An owner whose fence is old changes nothing.
local job, attempts = KEYS[1], KEYS[2]
local fence, n, row, place, status, answer = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local answer_ttl, ledger_ttl = tonumber(ARGV[7]), tonumber(ARGV[8])
local now = now_ms(ARGV[9])

local record = fields(job, 'fence', 'status', 'deadline_at')
if record.fence ~= fence then return {'fenced'} end
redis.call('HSET', attempts, n, row)
redis.call('PEXPIRE', attempts, math.max(tonumber(record.deadline_at) - now, 0) + ledger_ttl * 1000)
if ENDED[record.status] then return {'over', view(job, attempts), now} end
redis.call('HSET', job, 'next', place + 1)
if status == '' then return {'ok'} end
if answer ~= '' then redis.call('HSET', job, 'answer', answer) end
finish(job, attempts, status, now, answer_ttl, ledger_ttl)
return {'over', view(job, attempts), now}
