-- What a call teaches of a stage's health. The judgement is that of worker/failover/breaker.py, in the same words.
local PARTS = 20

-- Of at least `min_calls` in the window so many failed, or so many in a row of any age.
local function trips(rule, calls, failures, row)
  local enough = calls >= rule.min_calls and failures / calls >= rule.failure_ratio
  return enough or row >= rule.consecutive_failures
end

-- Milliseconds that a breaker stays open, after so many openings since the last success.
local function open_for(rule, before)
  local longest, ms = math.max(rule.open_ms, rule.open_max_ms), rule.open_ms
  for _ = 1, before do
    if ms >= longest or rule.open_growth <= 1 then break end
    ms = ms * rule.open_growth
  end
  return math.floor(math.min(ms, longest) + 0.5)
end

-- The window with one more call in it, and the calls and failures that are in it now.
local function counted(window, rule, failed, now)
  local width = math.max(1, math.floor(rule.window_ms / PARTS))
  local here, parts, calls, failures = math.floor(now / width), {}, 1, failed and 1 or 0
  local own_calls, own_failures = 1, failures
  for part, of_it, bad in string.gmatch(window or '', '(%d+):(%d+):(%d+)') do
    part, of_it, bad = tonumber(part), tonumber(of_it), tonumber(bad)
    if part * width > now - rule.window_ms then
      calls, failures = calls + of_it, failures + bad
      if part == here then own_calls, own_failures = own_calls + of_it, own_failures + bad
      else parts[#parts + 1] = string.format('%.0f:%d:%d', part, of_it, bad) end
    end
  end
  parts[#parts + 1] = string.format('%.0f:%d:%d', here, own_calls, own_failures)
  return table.concat(parts, ' '), calls, failures
end

local function set_triple(name, s, class, triple, now)
  local found = triples(redis.call('HGET', gates, name), s.id)
  found[class] = triple
  write_gate(gates, name, found, now, ALL.day_ms)
end

-- No result of a call admitted before changes anything of it.
local function turn(name, s, reason, ends, now)
  local key = KEYS[s.hash]
  renewed(s)
  redis.call('HINCRBY', key, 'generation', 1)
  if reason then
    redis.call('HSET', key, 'state', 'open', 'reason', reason, 'until', ends)
    set_triple(name, s, 'breaker', {reason = reason, ends = ends, whose = s.id}, now)
  else
    redis.call('HSET', key, 'state', 'closed')
    redis.call('HDEL', key, 'reason', 'until', 'window', 'row', 'opened', 'throttles')
    set_triple(name, s, 'breaker', nil, now)
  end
  redis.call('PEXPIRE', key, ALL.kept_ms)
end

local function mates(name, s, shared)
  return shared and s.mates or {name}
end

-- Whoever is throttled is so with all that its account stands for; a host that is overloaded speaks for itself.
local function throttle(name, s, lesson, reason, now)
  local key, closed = KEYS[s.hash], lesson.closed_ms
  local told = lesson.throttled and reason ~= 'overloaded' and 'throttled' or 'overloaded'
  if closed == 0 then
    local own = triples(redis.call('HGET', gates, name), s.id).throttle
    if own and own.ends > now then return end
    local before = redis.call('HINCRBY', key, 'throttles', 1) - 1
    closed = math.min(ALL.back_off_ms * 2 ^ math.min(before, 32), ALL.most_back_off_ms)
  end
  for _, mate in ipairs(mates(name, s, told == 'throttled')) do
    local other = stage_of(mate)
    local own = triples(redis.call('HGET', gates, mate), other.id).throttle
    if not own or own.ends < now + closed then
      set_triple(mate, other, 'throttle', {reason = told, ends = now + closed, whose = other.id}, now)
    end
  end
end

local function open(name, s, now)
  local before = redis.call('HINCRBY', KEYS[s.hash], 'opened', 1) - 1
  turn(name, s, 'breaker_open', now + open_for(s.breaker, before), now)
end

local function count(name, s, failed, now)
  local key = KEYS[s.hash]
  local window, calls, failures = counted(redis.call('HGET', key, 'window'), s.breaker, failed, now)
  local row = failed and redis.call('HINCRBY', key, 'row', 1) or 0
  redis.call('HSET', key, 'window', window, 'row', row)
  if failed and trips(s.breaker, calls, failures, row) then return open(name, s, now) end
  if not failed then redis.call('HDEL', key, 'throttles') end
  redis.call('PEXPIRE', key, ALL.kept_ms)
end

local SHARED = {auth = true, quota = true}

-- What a call in the present generation says of its stage.
local function judge(name, s, lesson, reason, probe, now)
  if lesson.permanent then
    local ends = now + (lesson.closed_ms > 0 and lesson.closed_ms or s.breaker.permanent_ms)
    for _, mate in ipairs(mates(name, s, SHARED[reason])) do turn(mate, stage_of(mate), reason, ends, now) end
    return
  end
  if lesson.failed then redis.call('HSET', KEYS[s.hash], 'last_failure', reason ~= '' and reason or 'slow') end
  if lesson.throttled or (lesson.failed and lesson.closed_ms > 0) then
    throttle(name, s, lesson, reason, now)
  end
  if lesson.failed and probe then open(name, s, now)
  elseif lesson.failed then count(name, s, true, now)
  elseif lesson.worked and probe then turn(name, s, nil, nil, now)
  elseif lesson.worked then count(name, s, false, now) end
end
