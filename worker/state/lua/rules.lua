-- What a worker's configuration says of its stages, and where their keys are.
-- KEYS: the living workers, the gates, the rules, the parked jobs, the open ones, the dead letters, the tickets, the
-- lanes' pace, what their owners say, then the stages' keys at the places that the rules name; the job's record and
-- ledger last, where there is one.
local workers, gates, rules, parked, open, tickets = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[7]
local paces, lanes = KEYS[8], KEYS[9]
local job, attempts = KEYS[#KEYS - 1], KEYS[#KEYS]
local text = redis.call('HGET', rules, '*')
if not text then return {'rules'} end
local ALL, known_stages = cjson.decode(text), {}
local ENDS = {open = open, dead = KEYS[6], answer_ttl = ALL.answer_ttl, ledger_ttl = ALL.ledger_ttl,
  dead_ttl = ALL.dead_ttl, waiting = tickets}

-- The rules of a stage are a line, `ID LANE HOME IMAGES MODEL`, which is all that is needed to pass it over, and the
-- rest as JSON, read where it is looked at.
local REST = {__index = function(s, key)
  for field, value in pairs(cjson.decode(string.sub(rawget(s, 'text'), rawget(s, 'at')))) do rawset(s, field, value) end
  setmetatable(s, nil)
  return rawget(s, key)
end}

local function stage_from(name, text)
  if not text then return false end
  local id, lane, home, images, model, at = string.match(text, '^(%S+) (%S+) (%d) (%d) ([^\n]*)\n()')
  local found = {name = name, id = id, lane = lane, home = home == '1', images = images == '1', model = model}
  found.text, found.at = text, at
  return setmetatable(found, REST)
end

-- A stage as this worker knows it; nil where it does not.
local function stage_of(name)
  if known_stages[name] == nil then known_stages[name] = stage_from(name, redis.call('HGET', rules, name)) end
  return known_stages[name] or nil
end

local function places_taken(s, now)
  return held(KEYS[s.places], workers, s.most, now, ALL.dead_after)
end

local function probe_taken(s, now)
  return held(KEYS[s.probe], workers, 1, now, ALL.dead_after) > 0
end

-- A stage's hash, started anew where it tells of another host or model; what was counted and spent stays.
local function renewed(s)
  local key = KEYS[s.hash]
  local found = fields(key, 'id', 'generation', 'dropped', 'believed_until')
  if found.id == s.id then return found end
  local generation = tonumber(found.generation or 0) + (found.id and 1 or 0)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local counted = string.find(field, '^spent_') or string.find(field, '^requests_') or string.find(field, '^tokens_')
    if not counted then redis.call('HDEL', key, field) end
  end
  redis.call('HSET', key, 'id', s.id, 'state', 'closed', 'generation', generation)
  redis.call('PEXPIRE', key, ALL.kept_ms)
  return {id = s.id, generation = generation}
end

-- The job waits in no line any more.
local function leave_lines(id)
  if redis.call('ZREM', parked, id) == 0 then return end
  for _, place in ipairs(ALL.lines) do redis.call('ZREM', KEYS[place], id) end
end
