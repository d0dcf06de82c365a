-- A worker process says that it lives (and, where Redis `was_away` from it, that nobody is dead for not having been
-- heard meanwhile), learns which of its jobs their callers have cancelled, and whether it is the one
-- that sends parked jobs on.
-- KEYS: the living workers, the housekeeper's lease, the parked jobs, then the records of this process's jobs.
-- Returns 1 where there is something to send on and it is this process that does so, and the places of the cancelled.
-- Uses leases.
local workers, housekeeper, parked, member = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local dead_after, day, was_away, now = tonumber(ARGV[2]), 86400, ARGV[3] == '1', now_ms(ARGV[4])

if was_away then
  for _, other in ipairs(redis.call('ZRANGE', workers, 0, -1)) do redis.call('ZADD', workers, now, other) end
end
redis.call('ZADD', workers, now, member)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now - 60000)
redis.call('EXPIRE', workers, day)
local cancelled = {}
for i = 4, #KEYS do
  if redis.call('HEXISTS', KEYS[i], 'cancel') == 1 then cancelled[#cancelled + 1] = i - 4 end
end
local holder = member .. ' - 0'
local mine = redis.call('ZSCORE', housekeeper, holder) or held(housekeeper, workers, 1, now, dead_after) == 0
if mine then lease(housekeeper, holder, now, now + dead_after) end
return {mine and redis.call('ZCARD', parked) > 0 and 1 or 0, cancelled}
