-- What all workers know of the stages, for a person; nothing is written.
-- KEYS: the living workers, the gates, then five a stage: its hash, probe, line, leases, and its account's hash.
-- ARGV: milliseconds after which a worker is dead, the time (tests only), then the stages' names.
local workers, gates = KEYS[1], KEYS[2]
local dead_after, now = tonumber(ARGV[1]), now_ms(ARGV[2])

-- The leases that hold, with their ends: `-` is a job on its way, which no process has yet.
local function holding(key)
  local found = {}
  local leases = redis.call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES')
  for i = 1, #leases, 2 do
    local owner = string.match(leases[i], '^%S+')
    if owner == '-' or alive(workers, owner, now, dead_after) then
      found[#found + 1] = leases[i]
      found[#found + 1] = leases[i + 1]
    end
  end
  return found
end

local stages = {}
for i = 3, #ARGV do
  local first = 3 + (i - 3) * 5
  stages[#stages + 1] = {
    redis.call('HGET', gates, ARGV[i]) or '',
    redis.call('HGETALL', KEYS[first]),
    holding(KEYS[first + 1]),
    redis.call('ZCARD', KEYS[first + 2]),
    #holding(KEYS[first + 3]) / 2,
    redis.call('HGETALL', KEYS[first + 4]),
  }
end
return {now, stages}
