-- What a stage has taught of the requests that it takes: `dropped` fields, marks of `refused` requests, and until when
-- a fault is not told again; believed for a day from the first of them.

-- Put a value into a list kept as JSON, once, and say how long the list is.
local function listed(key, field, value, most)
  local found = cjson.decode(redis.call('HGET', key, field) or '[]')
  for _, known in ipairs(found) do
    if known == value then return #found end
  end
  if #found < most then
    found[#found + 1] = value
    redis.call('HSET', key, field, cjson.encode(found))
  end
  return #found
end

local function forget(key, all)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local quarrel = field == 'refused' or string.sub(field, 1, 5) == 'loud:'
    if quarrel or (all and field == 'dropped') then redis.call('HDEL', key, field) end
  end
end

-- Whether a person should hear of it now, and whether the stage is to blame for its refusals.
local function likings(s, known, lesson, reason, now)
  local key = KEYS[s.hash]
  local believed = tonumber(known.believed_until or 0) > now
  if not believed then forget(key, true) end
  if lesson.worked then
    forget(key, false)
    return false, false
  end
  if lesson.dropped ~= '' and lesson.believed then listed(key, 'dropped', lesson.dropped, ALL.most_dropped) end
  local suspect = lesson.refused ~= '' and listed(key, 'refused', lesson.refused, ALL.refusals) >= ALL.refusals
  local field = 'loud:' .. reason .. (lesson.dropped ~= '' and ' ' .. lesson.dropped or '')
  local alarm = (lesson.loud or suspect) and tonumber(redis.call('HGET', key, field) or 0) <= now
  if alarm then redis.call('HSET', key, field, now + ALL.loud_ms) end
  if not believed and (lesson.dropped ~= '' or lesson.refused ~= '' or alarm) then
    redis.call('HSET', key, 'believed_until', now + ALL.believed_ms)
    redis.call('PEXPIRE', key, ALL.kept_ms)
  end
  return alarm, suspect
end
