-- Write a new job's record and put its message onto its lane's queue, in one step.
-- An id that is known already is left alone, unless it ended without an answer and `anew` is '1'.
-- With an idempotency key: where another job has it and asks the same, a caller who can takes that job ('join'), and
-- else this one is written and shares the other's end ('follow'); a job that is `gone` has it no more.
-- KEYS: the record, the ledger, the queue, the open jobs, the dead letters, the tickets, the idempotency key's hash (if one
-- is given).
-- ARGV: the id, the request, the record's other fields as JSON, the message ('' sends none), `anew`, milliseconds until
-- the deadline, for which the record outlives it, and until housekeeping looks; the time (tests only); then with a key
-- the digest of what is asked, its milliseconds, join or follow, which job is gone, and the key's own digest.
local job, attempts, queue, open, dead, waiting, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, request, others, message, anew = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), ARGV[4], ARGV[5]
local deadline_ms, beyond_ms, looks_ms, now = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), now_ms(ARGV[9])
local digest, key_ms, mode, gone, named = ARGV[10], tonumber(ARGV[11]), ARGV[12], ARGV[13], ARGV[14]

local status = redis.call('HGET', job, 'status')
-- The fence goes on counting: whoever walks the job's former life must not settle the new one.
local fence = redis.call('HGET', job, 'fence') or 0
if status then
  local asked = key and redis.call('HMGET', key, 'job', 'request')
  if asked and asked[1] == id and asked[2] ~= digest then return {'other', id} end
  local unanswered = ENDED[status] and status ~= 'answered'
  if not (anew == '1' and unanswered) then
    if others.celery == '1' and redis.call('HSETNX', job, 'celery', 1) == 1 and ENDED[status] then
      look_at(open, id, now, now)
    end
    return {'known', status}
  end
end
if key then
  local holder = fields(key, 'job', 'request')
  if holder.job and holder.job ~= id and holder.job ~= gone then
    if holder.request ~= digest then return {'other', holder.job} end
    if mode == 'join' then return {'same', holder.job} end
    others.follows, others.key = holder.job, named
  else
    redis.call('HSET', key, 'job', id, 'request', digest)
    redis.call('PEXPIRE', key, key_ms)
  end
end
if status then
  redis.call('DEL', job, attempts)
  redis.call('ZREM', dead, id)
  fence = fence + 1
end
for name, value in pairs(others) do redis.call('HSET', job, name, value) end
redis.call('HSET', job, 'status', 'queued', 'request', request, 'submitted_at', now, 'enqueued_at', now, 'queued_ms', 0,
  'deadline_ms', deadline_ms, 'deadline_at', now + deadline_ms, 'next', 0, 'again', '[]', 'fence', fence, 'owner', '')
redis.call('PEXPIRE', job, deadline_ms + beyond_ms)
look_at(open, id, now + math.min(looks_ms, deadline_ms), now)
keep(open, deadline_ms + BEYOND_MS)
take_ticket(waiting, job, id, queue, now * 1000, false)
if message ~= '' then redis.call('LPUSH', queue, message) end
return {'new', 'queued'}
