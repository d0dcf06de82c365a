-- Throw dead letters away: what they ask is forgotten, how they ended is known for as long as of any other job.
-- Uses letters.
-- KEYS: the dead letters, then a record for each job. ARGV: seconds for which an end is kept; the ids of the jobs, as
-- JSON. Returns for each 'dropped', or the status of one that is none.
local dead, ids, reply = KEYS[1], cjson.decode(ARGV[2]), {}
for i, id in ipairs(ids) do
  local job = KEYS[1 + i]
  local status = redis.call('HGET', job, 'status') or 'unknown'
  redis.call('ZREM', dead, id)
  if is_dead(job, status) then
    redis.call('HDEL', job, 'request')
    redis.call('EXPIRE', job, ARGV[1])
    status = 'dropped'
  end
  reply[i] = status
end
return reply
