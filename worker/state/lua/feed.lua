-- Which parked jobs are to be sent on now: those whose deadline has come, and of each line as many as may run.
-- A job stays in its line until a worker has claimed it; until then it is sent again after some time.
-- Uses gates, leases, rules, limits.
local now, most = now_ms(ARGV[1]), ALL.most_sent
if redis.call('ZCARD', parked) == 0 then return {} end
local sent = {}

-- How many jobs of a line the stage may take, those on their way aside.
local function room(s, on_its_way)
  local reason, _, due = closed_for(redis.call('HGET', gates, s.name), now, s.id)
  if reason then return 0 end
  if due then return probe_taken(s, now) and 0 or 1, true end
  -- A stage that has no limits of ours may still throttle: its line goes on by and by.
  local free = (s.most or s.rpm or s.tpm) and most or ALL.most_unlimited
  if s.most then free = math.min(free, s.most - places_taken(s, now) - on_its_way) end
  if s.rpm or s.tpm then
    local full = redis.call('HMGET', KEYS[s.account], 'requests_full_at', 'tokens_full_at', 'tokens_each')
    local function left(full_at, capacity) return capacity - math.max(0, tonumber(full_at or 0) - now * 1000) end
    if s.rpm then free = math.min(free, math.floor(left(full[1], requests_room(s)) / cost(1, s.rpm)) - on_its_way) end
    if s.tpm then
      -- How many tokens the next of them needs is not known here; it will be much like the last call.
      local tokens, each = left(full[2], s.burst_us), math.max(1, tonumber(full[3] or 1))
      free = math.min(free, tokens > 0 and math.max(1, math.floor(tokens / each)) - on_its_way or 0)
    end
  end
  return free, false
end

local function send(id, line)
  sent[#sent + 1] = id
  redis.call('ZADD', line, now + ALL.sent_again_ms, id)
end

-- A job whose time is over is sent for its end, and not for a stage as well.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', parked, '-inf', now, 'LIMIT', 0, most)) do
  send(id, parked)
  for _, place in ipairs(ALL.lines) do redis.call('ZADD', KEYS[place], 'XX', now + ALL.sent_again_ms, id) end
end
for _, name in ipairs(ALL.names) do
  local s = stage_of(name)
  local line = KEYS[s.line]
  if redis.call('ZCARD', line) > 0 then
    local free, due = room(s, redis.call('ZCOUNT', line, '(' .. now, '+inf'))
    if free > 0 then
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', line, '-inf', now, 'LIMIT', 0, free)) do
        send(id, line)
        if due then lease(KEYS[s.probe], '- ' .. id .. ' 0', now, now + ALL.on_its_way_ms) end
      end
    end
  end
end
return sent
