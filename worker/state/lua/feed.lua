-- Which parked jobs are to be sent on now: those that are to look again, and of each line as many as may run. Second: those
-- that were sent and are in no worker's hands, though a message of theirs may wait.
-- Uses gates, leases, rules, limits.
local now, most = now_ms(ARGV[1]), ALL.most_sent
if redis.call('ZCARD', parked) == 0 then return {{}, {}} end
local sent, doubtful = {}, {}

-- How many jobs of a line the stage may take, those on their way aside; second: the one is its probe.
local function room(s, on_its_way)
  local reason, _, due = closed_for(redis.call('HGET', gates, s.name), now, s.id)
  if reason or (due and (s.probe_ms or probe_taken(s, now))) then return 0, due end
  -- A stage that has no limits of ours may still throttle: its line goes on by and by.
  local free = due and 1 or (s.most or s.rpm or s.tpm) and most or ALL.most_unlimited
  if s.most then free = math.min(free, s.most - places_taken(s, now) - on_its_way) end
  if s.rpm or s.tpm then
    local full = redis.call('HMGET', KEYS[s.account], 'requests_full_at', 'tokens_full_at', 'tokens_each')
    local function left(full_at, capacity) return capacity - math.max(0, tonumber(full_at or 0) - now * 1000) end
    if s.rpm then free = math.min(free, math.floor(left(full[1], requests_room(s)) / cost(1, s.rpm)) - on_its_way) end
    if s.tpm then
      -- How many tokens the next of them needs is not known here; it will be much like the last call.
      local tokens, each = left(full[2], s.burst_us), math.max(1, tonumber(full[3] or 1))
      local calls = math.max(math.floor(tokens / each), tokens >= s.burst_us and 1 or 0)
      free = math.min(free, calls - on_its_way)
    end
  end
  return free, due
end

-- One that was sent on stays in its line until a worker has claimed it, with when it was sent, negative.
local function send(id, line)
  sent[#sent + 1] = id
  redis.call('ZADD', line, -now, id)
  redis.call('ZADD', parked, 'XX', now + ALL.sent_again_ms, id)
end

-- Whether its message may still wait for a worker: whoever asks looks for it then.
local function may_wait_in_queue(id)
  for i, place in ipairs(ALL.lines) do
    local score = redis.call('ZSCORE', KEYS[place], id)
    if score and tonumber(score) < 0 then
      local queues = stage_of(ALL.names[i]).queues
      return redis.call('LLEN', KEYS[queues[1]]) + redis.call('LLEN', KEYS[queues[2]]) > 0
    end
  end
  return false
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', parked, '-inf', now, 'LIMIT', 0, most)) do
  redis.call('ZADD', parked, now + ALL.sent_again_ms, id)
  if may_wait_in_queue(id) then doubtful[#doubtful + 1] = id
  else
    sent[#sent + 1] = id
    for _, place in ipairs(ALL.lines) do redis.call('ZADD', KEYS[place], 'XX', -now, id) end
  end
end
for i, name in ipairs(ALL.names) do
  local line = KEYS[ALL.lines[i]]
  if redis.call('ZCARD', line) > 0 then
    local s = stage_of(name)
    local free, due = room(s, redis.call('ZCOUNT', line, '-inf', '(0'))
    if free > 0 then
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'LIMIT', 0, free)) do
        send(id, line)
        if due then lease(KEYS[s.probe], kept_for(id), now, now + ALL.on_its_way_ms) end
      end
    end
  end
end
return {sent, doubtful}
