-- How fast a lane's calls have gone of late, as JSON: `calls`, `[MS, TOKENS IN, TOKENS OUT]` of the last ones, newest last,
-- and `busy`, `PART:MS`, for how long a call was under way in each of the last parts of time.

local function busy_with(busy, began, ended)
  local part_ms, spent, told = ALL.pace.part_ms, {}, {}
  local last = math.floor(ended / part_ms)
  local first = last - ALL.pace.parts
  for part, ms in string.gmatch(busy or '', '(%d+):(%d+)') do spent[tonumber(part)] = tonumber(ms) end
  for part = first, last do
    local inside = math.min(ended, (part + 1) * part_ms) - math.max(began, part * part_ms)
    local ms = math.min(part_ms, (spent[part] or 0) + math.max(0, inside))
    if ms > 0 then told[#told + 1] = string.format('%.0f:%.0f', part, ms) end
  end
  return table.concat(told, ' ')
end

local function pace_of(lane)
  local text = redis.call('HGET', paces, lane)
  return text and cjson.decode(text) or {calls = {}}
end

-- A call has ended that was really made: others learn how long one takes.
local function note_pace(lane, row, now)
  local ms = math.floor(row.duration_s * 1000 + 0.5)
  if ms <= 0 then return end
  local pace, usage = pace_of(lane), type(row.usage) == 'table' and row.usage or {}
  table.insert(pace.calls, {ms, usage.input_tokens or 0, usage.output_tokens or 0})
  while #pace.calls > ALL.pace.calls do table.remove(pace.calls, 1) end
  pace.busy, pace.at = busy_with(pace.busy, now - ms, now), now
  redis.call('HSET', paces, lane, cjson.encode(pace))
  redis.call('PEXPIRE', paces, ALL.kept_ms)
end

-- A call of a lane was admitted (1) or has ended (-1): what its owner says with its heartbeats is kept true in between. Of
-- those in hand one is called, from when the one before has ended.
local function note_in_hand(lane, change, now)
  local text = redis.call('HGET', lanes, lane)
  if not text then return end
  local said = cjson.decode(text)
  said.in_hand = math.max(0, (said.in_hand or 0) + change)
  if change < 0 or said.in_hand == 1 then said.since = said.in_hand > 0 and now or nil end
  redis.call('HSET', lanes, lane, cjson.encode(said))
end

-- Milliseconds until the turn of a job that comes to a lane now; nil where too few calls have been seen.
local function wait_on(lane, priority, now)
  local pace = pace_of(lane)
  if #pace.calls < ALL.pace.enough then return nil end
  local spent, said = 0, said_of(lanes, lane, workers, now, ALL.dead_after)
  for _, call in ipairs(pace.calls) do spent = spent + call[1] end
  local batch = priority == 'batch'
  local rank = tickets_before(tickets, queue_of(lane, priority))
  local others = tickets_before(tickets, queue_of(lane, not batch and 'batch' or ''))
  local before = rank + math.min(others, batch and 9 * (rank + 1) or math.floor(rank / 9))
  return (before + (said ~= '' and cjson.decode(said).in_hand or 0)) * spent / #pace.calls
end
