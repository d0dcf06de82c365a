-- Write a new job's record and put its message onto its lane's queue, in one step.
-- An id that is known already is left alone, unless it ended without an answer and `anew` is '1'.
local job, attempts, queue = KEYS[1], KEYS[2], KEYS[3]
local request, plan, chain, label, lane = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local deadline_ms, answer_ttl, local_only = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local message, anew = ARGV[9], ARGV[10]
local images, tokens_in, tokens_out, now = ARGV[11], ARGV[12], ARGV[13], now_ms(ARGV[14])

local status = redis.call('HGET', job, 'status')
-- The fence goes on counting: whoever walks the job's former life must not settle the new one.
local fence = redis.call('HGET', job, 'fence') or 0
if status then
  local unanswered = ENDED[status] and status ~= 'answered'
  if not (anew == '1' and unanswered) then return {'known', status} end
  redis.call('DEL', job, attempts)
  fence = fence + 1
end
redis.call('HSET', job, 'status', 'queued', 'request', request, 'plan', plan, 'chain', chain, 'lane', lane,
  'local_only', local_only, 'images', images, 'tokens_in', tokens_in, 'tokens_out', tokens_out, 'submitted_at', now,
  'enqueued_at', now, 'queued_ms', 0, 'deadline_at', now + deadline_ms, 'next', 0, 'again', '[]', 'fence', fence,
  'owner', '')
if label ~= '' then redis.call('HSET', job, 'label', label) end
redis.call('PEXPIRE', job, deadline_ms + answer_ttl * 1000)
if message ~= '' then redis.call('LPUSH', queue, message) end
return {'new', 'queued'}
