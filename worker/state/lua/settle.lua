-- Record what came of an attempt and what it taught; with an end, the job ends here. An owner whose fence is old
-- changes nothing.
-- KEYS: the record, the ledger, the gates, the stage's own hash.
local job, attempts, gates, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fence, n, row, place, status, answer = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local answer_ttl, ledger_ttl = tonumber(ARGV[7]), tonumber(ARGV[8])
local now, unfit, otherwise, stage, reason = now_ms(ARGV[9]), cjson.decode(ARGV[10]), ARGV[11], ARGV[12], ARGV[13]
local worked, closed_ms, dropped, refused = ARGV[14] == '1', tonumber(ARGV[15]), ARGV[16], ARGV[17]
local loud, refusals, loud_ms, believed_ms = ARGV[18] == '1', tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21])
local id, believed, most = ARGV[22], ARGV[23] == '1', tonumber(ARGV[24])

-- Put a value into a list kept as JSON, once, and say how long the list is.
local function listed(field, value, most)
  local found = cjson.decode(redis.call('HGET', notes, field) or '[]')
  for _, known in ipairs(found) do
    if known == value then return #found end
  end
  if not most or #found < most then
    found[#found + 1] = value
    redis.call('HSET', notes, field, cjson.encode(found))
  end
  return #found
end

local function forget_quarrels()
  for _, field in ipairs(redis.call('HKEYS', notes)) do
    if field == 'refused' or string.sub(field, 1, 5) == 'loud:' then redis.call('HDEL', notes, field) end
  end
end

local function close()
  if closed_ms <= 0 then return end
  local gate = redis.call('HGET', gates, stage)
  if closed_for(gate, now + closed_ms - 1, id) then return end
  redis.call('HSET', gates, stage, string.format('%.0f %s %s', now + closed_ms, reason, id))
  if redis.call('PTTL', gates) < closed_ms then redis.call('PEXPIRE', gates, closed_ms) end
end

-- Whether a person should hear of it now, and whether the stage is to blame for its refusals.
local function learn()
  if redis.call('HGET', notes, 'id') ~= id then redis.call('DEL', notes) end
  if worked then
    forget_quarrels()
    return false, false
  end
  close()
  if dropped ~= '' and believed then listed('dropped', dropped, most) end
  local suspect = refused ~= '' and listed('refused', refused, refusals) >= refusals
  local field = 'loud:' .. reason .. (dropped ~= '' and ' ' .. dropped or '')
  local alarm = (loud or suspect) and tonumber(redis.call('HGET', notes, field) or 0) <= now
  if alarm then redis.call('HSET', notes, field, string.format('%.0f', now + loud_ms)) end
  if dropped ~= '' or refused ~= '' or alarm then
    redis.call('HSET', notes, 'id', id)
    if redis.call('PTTL', notes) < 0 then redis.call('PEXPIRE', notes, believed_ms) end
  end
  return alarm, suspect
end

local record = fields(job, 'fence', 'status', 'deadline_at')
if record.fence ~= fence then return {'fenced'} end
redis.call('HSET', attempts, n, row)
redis.call('PEXPIRE', attempts, math.max(tonumber(record.deadline_at) - now, 0) + ledger_ttl * 1000)
if ENDED[record.status] then return {'over', view(job, attempts), now, 0} end
local alarm, suspect = learn()
alarm = alarm and 1 or 0
if suspect then status = otherwise end
if dropped == '' then redis.call('HSET', job, 'next', place + 1) end
if status == '' then return {'ok', alarm} end
if answer ~= '' then redis.call('HSET', job, 'answer', answer) end
finish(job, attempts, status, now, answer_ttl, ledger_ttl, unfit)
return {'over', view(job, attempts), now, alarm}
