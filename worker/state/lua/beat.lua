-- A worker process says that it lives, learns which of its jobs their callers have cancelled, and whether it is the one
-- that keeps house.
-- KEYS: the living workers, the housekeeper's lease, the parked jobs, then the records of this process's jobs.
-- Returns whether it is this process that keeps house, whether parked jobs are to be sent on by it, and the places of the
-- cancelled.
-- Uses leases.
local workers, housekeeper, parked, member = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local dead_after, day, now = tonumber(ARGV[2]), 86400, now_ms(ARGV[3])
-- Shorter than a death: who follows into the office does at most what was done already.
local office = 3000
-- Beats of one instant are so far apart at most.
local together = 2000

-- Where nobody has been heard for some time, not this one alone (Redis was away, the machine slept, the clock was set),
-- those who were heard as lately as this one are given their time anew.
local last = tonumber(redis.call('ZSCORE', workers, member) or nil)
local slept = last and (now < last or now - last > dead_after / 2)
if slept and redis.call('ZCOUNT', workers, string.format('(%.0f', last + together), '+inf') == 0 then
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', workers, last - together, '+inf')) do
    redis.call('ZADD', workers, now, other)
  end
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
if mine then lease(housekeeper, holder, now, now + office) end
return {mine and 1 or 0, mine and redis.call('ZCARD', parked) > 0 and 1 or 0, cancelled}
