-- What all workers know of the stages and lanes, for a person; nothing is written.
-- Uses lanes.
-- KEYS: the living workers, the gates, the tickets, the lanes' pace, what their owners say, then five a stage: its hash,
-- probe, line, leases, and its account's hash; then eight a lane, the lists of its messages.
-- ARGV: milliseconds after which a worker is dead, the time (tests only), how many stages, their names, and the lanes'.
-- Returns the time, what is known of each stage and of each lane, and the living workers.
local workers, gates, waiting, pace, said = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
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

local function first_ticket(queue)
  return redis.call('ZRANGEBYLEX', waiting, '[' .. queue .. ' ', '(' .. queue .. '!', 'LIMIT', 0, 1)[1] or ''
end

local stages, lanes, living = {}, {}, {}
local count = tonumber(ARGV[3])
for i = 1, count do
  local first = 6 + (i - 1) * 5
  stages[#stages + 1] = {
    redis.call('HGET', gates, ARGV[3 + i]) or '',
    redis.call('HGETALL', KEYS[first]),
    holding(KEYS[first + 1]),
    redis.call('ZCARD', KEYS[first + 2]),
    #holding(KEYS[first + 3]) / 2,
    redis.call('HGETALL', KEYS[first + 4]),
  }
end
for i = 1, #ARGV - 3 - count do
  local lane, first, messages = ARGV[3 + count + i], 6 + count * 5 + (i - 1) * 8, 0
  for key = first, first + 7 do messages = messages + redis.call('LLEN', KEYS[key]) end
  local batch = queue_of(lane, 'batch')
  lanes[i] = {tickets_before(waiting, lane), tickets_before(waiting, batch), first_ticket(lane), first_ticket(batch),
    messages, redis.call('HGET', pace, lane) or '', said_of(said, lane, workers, now, dead_after)}
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', workers, now - dead_after, now + dead_after)) do
  if alive(workers, member, now, dead_after) then living[#living + 1] = member end
end
return {now, stages, lanes, living}
