-- Shared by all scripts: the server's time, who lives, a record's fields and its view, and the end of a job.
local ENDED = {answered = true, exhausted = true, refused = true, expired = true, cancelled = true}
-- No worker has such a job: its message is in a queue, or its signature in its record.
local WAITS = {queued = true, parked = true}

local function now_ms(given)
  if given and given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function fields(key, ...)
  local names, found = {...}, {}
  local values = redis.call('HMGET', key, ...)
  for i, name in ipairs(names) do found[name] = values[i] or nil end
  return found
end

local function alive(workers, owner, now, dead_after)
  if not owner or owner == '' then return false end
  local beat = redis.call('ZSCORE', workers, owner)
  return beat and math.abs(now - tonumber(beat)) < dead_after
end

-- A reader's view: everything of the record but the request, and the ledger.
local SEEN = {'status', 'chain', 'label', 'lane', 'plan', 'submitted_at', 'deadline_at', 'enqueued_at', 'queued_ms',
  'ended_at', 'answer', 'parked_for', 'retry_at'}
local function view(job, attempts)
  local record, values = {}, redis.call('HMGET', job, unpack(SEEN))
  for i, name in ipairs(SEEN) do
    if values[i] then record[#record + 1] = name; record[#record + 1] = values[i] end
  end
  return {record, redis.call('HGETALL', attempts)}
end

-- A call that was under way when its worker died is told as unknown: nobody saw what came of it.
local function settle_orphans(attempts, now)
  local ledger = redis.call('HGETALL', attempts)
  for i = 2, #ledger, 2 do
    if string.find(ledger[i], '"outcome":"started"', 1, true) then
      local row = string.gsub(ledger[i], '"outcome":"started"', '"outcome":"unknown","reason":"crashed"', 1)
      redis.call('HSET', attempts, ledger[i - 1], row)
    end
  end
end

-- Whether every stage that could have been asked cannot serve this very request: then the request is refused.
-- A stage that was asked more than once has said so in the end.
local function fits_nowhere(job, attempts, unfit)
  local record = fields(job, 'plan', 'next')
  if tonumber(record.next) < #cjson.decode(record.plan) then return false end
  local fits, last, asked = {}, {}, 0
  for _, reason in ipairs(unfit) do fits[reason] = true end
  for n = 1, redis.call('HLEN', attempts) do
    local row = cjson.decode(redis.call('HGET', attempts, n) or '{}')
    last[row.stage or n] = row.reason or ''
  end
  for _, reason in pairs(last) do
    if fits[reason] then asked = asked + 1
    elseif reason ~= 'local_only' then return false end
  end
  return asked > 0
end

local function finish(job, attempts, status, now, answer_ttl, ledger_ttl, unfit)
  local waiting = redis.call('HMGET', job, 'status', 'enqueued_at', 'queued_ms')
  if WAITS[waiting[1]] then
    redis.call('HSET', job, 'queued_ms', tonumber(waiting[3] or 0) + now - tonumber(waiting[2] or now))
  end
  settle_orphans(attempts, now)
  if status == 'exhausted' and fits_nowhere(job, attempts, unfit) then status = 'refused' end
  redis.call('HSET', job, 'status', status, 'ended_at', now, 'owner', '')
  redis.call('HDEL', job, 'request', 'again', 'parked_for')
  -- The signature of a parked job is still to be sent: by it Celery hears of the end.
  if waiting[1] ~= 'parked' then redis.call('HDEL', job, 'signature') end
  if status ~= 'exhausted' then redis.call('HDEL', job, 'retry_at') end
  redis.call('EXPIRE', job, answer_ttl)
  redis.call('EXPIRE', attempts, ledger_ttl)
end
