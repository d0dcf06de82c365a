-- What a call teaches of a stage's health. The judgement is that of worker/failover/breaker.py, in the same words.

-- Of at least `min_calls` in the window so many failed, or so many in a row of any age.
local function trips(rule, calls, failures, row)
  local enough = calls >= rule.min_calls and failures / calls >= rule.failure_ratio
  return enough or row >= rule.consecutive_failures
end

-- What a call that was admitted since the last turn does; its failures are counted in, unless it is the probe.
local function turn(rule, lesson, probe, calls, failures, row)
  if lesson.permanent or (lesson.failed and (probe or trips(rule, calls, failures, row))) then return 'opens' end
  return lesson.worked and probe and 'closes' or 'stays'
end

-- Milliseconds that a breaker stays open, after so many openings since the last success.
local function open_for(rule, before)
  local ms = rule.open_ms
  for _ = 1, before do
    if ms >= rule.open_max_ms or rule.open_growth == 1 then break end
    ms = ms * rule.open_growth
  end
  return math.floor(math.min(ms, math.max(rule.open_ms, rule.open_max_ms)) + 0.5)
end

-- The window with one more call in it, and the calls and failures that are in it now.
local function counted(window, rule, failed, now)
  local width = math.max(1, math.floor(rule.window_ms / ALL.parts))
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

local function set_triple(s, class, triple, now)
  local found = triples(redis.call('HGET', gates, s.name), s.id)
  found[class] = triple
  write_gate(gates, s.name, found, now, ALL.day_ms)
end

-- No result of a call admitted before changes anything of what is after.
local function turned(s, state)
  renewed(s)
  redis.call('HINCRBY', KEYS[s.hash], 'generation', 1)
  redis.call('HSET', KEYS[s.hash], 'state', state)
  redis.call('PEXPIRE', KEYS[s.hash], ALL.kept_ms)
end

local function opened(s, reason, ends, now)
  turned(s, 'open')
  redis.call('HSET', KEYS[s.hash], 'reason', reason, 'until', ends)
  set_triple(s, 'breaker', {reason = reason, ends = ends, whose = s.id}, now)
end

local function closed(s, now)
  turned(s, 'closed')
  redis.call('HDEL', KEYS[s.hash], 'reason', 'until', 'window', 'row', 'opened', 'throttles')
  set_triple(s, 'breaker', nil, now)
end

-- The stages that a fault is of: those behind the account, where it is the account's.
local function mates(s, shared)
  local found = {}
  for i, name in ipairs(shared and s.mates or {s.name}) do found[i] = stage_of(name) end
  return found
end

-- Whoever is throttled is so with all that its account stands for; a host that is overloaded speaks for itself.
local function throttle(s, lesson, reason, now)
  local key, closed_ms = KEYS[s.hash], lesson.closed_ms
  local told = lesson.throttled and reason ~= 'overloaded' and 'throttled' or 'overloaded'
  -- What names no time, or next to none again and again, is given more rest each time.
  if closed_ms < ALL.later_ms then
    local own = triples(redis.call('HGET', gates, s.name), s.id).throttle
    if own and own.ends > now then return end
    local before = redis.call('HINCRBY', key, 'throttles', 1) - 1
    local back_off = math.min(ALL.back_off_ms * 2 ^ math.min(before, 32), ALL.most_back_off_ms)
    if closed_ms == 0 or before > 0 then closed_ms = back_off end
  end
  for _, mate in ipairs(mates(s, told == 'throttled')) do
    local own = triples(redis.call('HGET', gates, mate.name), mate.id).throttle
    if not own or own.ends < now + closed_ms then
      set_triple(mate, 'throttle', {reason = told, ends = now + closed_ms, whose = mate.id}, now)
    end
  end
end

-- One call more in the window and in the row.
local function count(s, failed, now)
  local key = KEYS[s.hash]
  local window, calls, failures = counted(redis.call('HGET', key, 'window'), s.breaker, failed, now)
  local row = failed and redis.call('HINCRBY', key, 'row', 1) or 0
  redis.call('HSET', key, 'window', window, 'row', row)
  if not failed then redis.call('HDEL', key, 'throttles') end
  redis.call('PEXPIRE', key, ALL.kept_ms)
  return calls, failures, row
end

local function open(s, lesson, reason, now)
  if lesson.permanent then
    for _, mate in ipairs(mates(s, ALL.shared[reason])) do
      local named = lesson.closed_ms > 0 and math.max(lesson.closed_ms, mate.breaker.open_ms)
      opened(mate, reason, now + (named or mate.breaker.permanent_ms), now)
    end
  else
    local before = redis.call('HINCRBY', KEYS[s.hash], 'opened', 1) - 1
    opened(s, 'breaker_open', now + open_for(s.breaker, before), now)
  end
end

-- What a call of the present generation says of its stage.
local function judge(s, lesson, reason, probe, now)
  local calls, failures, row = 0, 0, 0
  if not lesson.permanent then
    if lesson.failed then redis.call('HSET', KEYS[s.hash], 'last_failure', reason ~= '' and reason or 'slow') end
    if lesson.throttled or (lesson.failed and lesson.closed_ms > 0) then throttle(s, lesson, reason, now) end
    if not probe and (lesson.failed or lesson.worked) then calls, failures, row = count(s, lesson.failed, now) end
  end
  local what = turn(s.breaker, lesson, probe, calls, failures, row)
  if what == 'opens' then open(s, lesson, reason, now)
  elseif what == 'closes' then closed(s, now) end
end
