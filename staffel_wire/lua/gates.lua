-- A gate says why a stage is not asked: `REASON UNTIL ID` triples joined by `; `, one of each class at most.
local CLASS = {switched_off = 'hand', throttled = 'throttle', overloaded = 'throttle'}

-- The triples of a gate by their class, as far as they are this stage's (`*` is any's).
local function triples(gate, id)
  local found = {}
  for reason, ends, whose in string.gmatch(gate or '', '(%S+) (%d+) ([^%s;]+)') do
    if whose == id or whose == '*' then
      found[CLASS[reason] or 'breaker'] = {reason = reason, ends = tonumber(ends), whose = whose}
    end
  end
  return found
end

-- Why a stage is closed now and until when, nil where it is not; third: its breaker is due for a probe.
local function closed_for(gate, now, id)
  if not gate then return nil, nil, false end
  local only, till, whose = string.match(gate, '^(%S+) (%d+) ([^%s;]+)$') -- most gates have one triple
  if only and tonumber(till) > now then
    if whose ~= id and whose ~= '*' then return nil, nil, false end
    return only, tonumber(till), false
  end
  local found, reason, ends = triples(gate, id), nil, 0
  local due = found.breaker ~= nil and found.breaker.ends <= now
  if found.hand and found.hand.ends > now then return found.hand.reason, found.hand.ends, due end
  for _, class in ipairs({'breaker', 'throttle'}) do
    local triple = found[class]
    if triple and triple.ends > now and triple.ends > ends then reason, ends = triple.reason, triple.ends end
  end
  return reason, reason and ends or nil, due
end

-- Write a stage's gate anew from its triples; `kept_ms` is how long it is remembered beyond its end.
local function write_gate(gates, stage, found, now, kept_ms)
  local parts, last = {}, now
  for _, class in ipairs({'hand', 'breaker', 'throttle'}) do
    local triple = found[class]
    if triple and (class == 'breaker' or triple.ends > now) then
      parts[#parts + 1] = string.format('%s %.0f %s', triple.reason, triple.ends, triple.whose)
      last = math.max(last, triple.ends)
    end
  end
  if #parts == 0 then
    redis.call('HDEL', gates, stage)
    return
  end
  redis.call('HSET', gates, stage, table.concat(parts, '; '))
  if redis.call('PTTL', gates) < last - now + kept_ms then redis.call('PEXPIRE', gates, last - now + kept_ms) end
end
