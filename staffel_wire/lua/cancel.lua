-- Cancel a job: a waiting one ends here and never starts; a running one is marked, its worker closes the call.
-- With `running` '0' a running one is left alone. A parked one is sent on at once, so that Celery hears of its end.
-- Of one without a record the wish is kept: a foreign message of it may wait, and is heeded when it is taken.
-- KEYS: the record, the ledger, the living workers, the parked jobs, the open ones, the dead letters, the wish, the
-- tickets.
local job, attempts, workers, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead_after, now, running = tonumber(ARGV[1]), now_ms(ARGV[5]), ARGV[6] ~= '0'
local kept = {open = KEYS[5], dead = KEYS[6], answer_ttl = tonumber(ARGV[2]), ledger_ttl = tonumber(ARGV[3]),
  dead_ttl = tonumber(ARGV[4]), waiting = KEYS[8]}

local record = fields(job, 'status', 'owner')
if not record.status then
  redis.call('SET', KEYS[7], 1, 'EX', ARGV[7])
  return 'unknown'
end
if ENDED[record.status] then return record.status end
if not running and record.status == 'running' then return 'running' end
redis.call('HSET', job, 'cancel', 1)
if record.status == 'parked' then redis.call('ZADD', parked, 'XX', now, string.match(job, '{(.*)}')) end
if WAITS[record.status] or not alive(workers, record.owner, now, dead_after) then
  finish(job, attempts, 'cancelled', now, kept)
  return 'cancelled'
end
return 'cancelling'
