-- A worker process says that it lives, and learns which of its jobs their callers have cancelled.
-- KEYS: the living workers, then the records of this process's jobs. Returns the places of the cancelled ones.
local workers, member = KEYS[1], ARGV[1]
local day, now = 86400, now_ms(ARGV[2])

redis.call('ZADD', workers, now, member)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now - 60000)
redis.call('EXPIRE', workers, day)
local cancelled = {}
for i = 2, #KEYS do
  if redis.call('HEXISTS', KEYS[i], 'cancel') == 1 then cancelled[#cancelled + 1] = i - 2 end
end
return cancelled
