-- Put a job that was told to wait into the line of its stage, with the message that will be sent when it goes on.
-- However its line moves, it looks again after some time: its stage may be gone from the configuration.
-- Uses gates, leases, rules.
local id, signature, now = ARGV[1], ARGV[2], now_ms(ARGV[3])

local record = fields(job, 'status', 'parked_for', 'deadline_at', 'submitted_at', 'follows')
local s = record.parked_for and stage_of(record.parked_for)
if record.status == 'parked' and record.follows then
  redis.call('HSET', job, 'signature', signature)
  look_at(open, id, now, now) -- the other may have ended in between
  return 1
end
if record.status == 'running' or record.status == 'queued' then return 1 end -- asked again, and it has gone on since
if record.status ~= 'parked' or not s then return 0 end
redis.call('HSET', job, 'signature', signature)
local kept = math.max(tonumber(record.deadline_at) - now, 0) + ALL.day_ms
local looks = math.min(tonumber(record.deadline_at), now + ALL.looks_again_ms)
for key, score in pairs({[KEYS[s.line]] = record.submitted_at, [parked] = looks}) do
  redis.call('ZADD', key, score, id)
  if redis.call('PTTL', key) < kept then redis.call('PEXPIRE', key, kept) end
end
return 1
