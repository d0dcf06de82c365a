-- Shared by all scripts: the server's time, who lives, a record's fields and its view, and the end of a job.
local ENDED = {answered = true, exhausted = true, refused = true, expired = true, cancelled = true}
-- Ended without an answer, and not by its caller's own doing: such a job may be a dead letter.
local DIES = {exhausted = true, expired = true}
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

-- Whether a job is to be ended by whoever looks, for its deadline has passed; its living owner gets some time more.
local function overdue(workers, record, now, dead_after)
  local late = record.deadline_at and now - tonumber(record.deadline_at) or 0
  if late <= 0 or not record.status or ENDED[record.status] then return false end
  return late > dead_after or not alive(workers, record.owner, now, dead_after)
end

-- A reader's view: everything of the record but the request, and the ledger.
local SEEN = {'status', 'chain', 'label', 'lane', 'plan', 'submitted_at', 'deadline_at', 'enqueued_at', 'queued_ms',
  'ended_at', 'answer', 'parked_for', 'retry_at', 'why', 'follows', 'priority'}
local function view(job, attempts)
  local record, values = {}, redis.call('HMGET', job, unpack(SEEN))
  for i, name in ipairs(SEEN) do
    if values[i] then record[#record + 1] = name; record[#record + 1] = values[i] end
  end
  return {record, redis.call('HGETALL', attempts)}
end

-- A call that was under way when its worker died, or was told to end, is told as unknown: nobody saw what came of it.
local function settle_orphans(attempts, now, reason)
  local ledger = redis.call('HGETALL', attempts)
  for i = 2, #ledger, 2 do
    if string.find(ledger[i], '"outcome":"started"', 1, true) then
      local told = '"outcome":"unknown","reason":"' .. (reason or 'crashed') .. '"'
      local row = string.gsub(ledger[i], '"outcome":"started"', told, 1)
      row = string.gsub(row, '"duration_s":0,', '"duration_s":null,', 1) -- nobody saw when
      redis.call('HSET', attempts, ledger[i - 1], row)
    end
  end
end

-- Count that a worker died under a job; how often that was.
local function died(job)
  return redis.call('HINCRBY', job, 'deaths', 1)
end

local function poisoned(deaths)
  return string.format('poison: its worker died or its walk broke off %d times (max_deliveries)', deaths)
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

-- Keep a key for so many milliseconds at least.
local function keep(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end

-- For so long beyond the last of its jobs the list of the open ones is kept.
local BEYOND_MS = 86400000

-- Have housekeeping look at a job at this time.
local function look_at(open, id, at, now)
  redis.call('ZADD', open, at, id)
  keep(open, math.max(at - now, 0) + BEYOND_MS)
end

-- A worker that has ended a job tells Celery so within the first; if it lives, it may try for the second. Then, or
-- where it has died, whoever gets the job's message does.
local TOLD_MS, TELLS_MS = 15000, 60000

-- Whether a worker, by having ended a job or by a delivery after that, is about to tell Celery.
local function is_being_told(workers, record, now, dead_after)
  local since = tonumber(record.telling_at or record.ended_at or 0)
  return alive(workers, record.teller, now, dead_after) and now - since < TELLS_MS
end

-- The queue of a lane in which jobs of this priority wait.
local function queue_of(lane, priority)
  return priority == 'batch' and lane .. '.batch' or lane
end

local function give_up_ticket(waiting, job)
  local ticket = redis.call('HGET', job, 'ticket')
  if not ticket then return end
  redis.call('ZREM', waiting, ticket)
  redis.call('HDEL', job, 'ticket')
end

-- A job waits in this queue from now on, last of all, or (`front`) before all. How many wait before it is one ZLEXCOUNT:
-- from `[QUEUE ` to `(` and its ticket. The clock may stand still or be set back, and none comes before its turn.
local function take_ticket(waiting, job, id, queue, now_us, front)
  give_up_ticket(waiting, job)
  local bounds, seq = {'[' .. queue .. ' ', '(' .. queue .. '!'}, now_us
  local first = front and redis.call('ZRANGEBYLEX', waiting, bounds[1], bounds[2], 'LIMIT', 0, 1)
    or redis.call('ZREVRANGEBYLEX', waiting, bounds[2], bounds[1], 'LIMIT', 0, 1)
  local other = first[1] and tonumber(string.match(first[1], ' (%d+) '))
  if other then seq = front and other - 1 or math.max(seq, other + 1) end
  local ticket = string.format('%s %016.0f %s', queue, seq, id)
  redis.call('ZADD', waiting, 0, ticket)
  redis.call('HSET', job, 'ticket', ticket)
  local ends = tonumber(redis.call('HGET', job, 'deadline_at'))
  keep(waiting, math.max(ends - now_us / 1000, 0) + BEYOND_MS)
end

-- `kept`: the keys of the open jobs, the dead letters and the tickets, and the seconds for which an answer, a ledger and a
-- dead letter are kept. `why`: what the attempts do not say. Only a dead letter keeps its request.
local function finish(job, attempts, status, now, kept, unfit, why)
  local id = string.match(job, '{(.*)}$')
  local was = fields(job, 'status', 'enqueued_at', 'queued_ms', 'owner', 'celery', 'followers')
  if WAITS[was.status] then
    redis.call('HSET', job, 'queued_ms', tonumber(was.queued_ms or 0) + now - tonumber(was.enqueued_at or now))
  end
  give_up_ticket(kept.waiting, job)
  settle_orphans(attempts, now)
  if status == 'exhausted' and fits_nowhere(job, attempts, unfit) then status = 'refused' end
  local dead = kept.dead_ttl > 0 and DIES[status]
  redis.call('HSET', job, 'status', status, 'ended_at', now, 'owner', '', 'teller', was.owner or '')
  redis.call('HDEL', job, 'again', 'parked_for', 'followers')
  if why then redis.call('HSET', job, 'why', why) end
  if not dead then redis.call('HDEL', job, 'request') end
  -- The message of a parked job is still to be sent, by it Celery hears of the end; another may be lost, and is sent.
  if was.celery == '1' then
    look_at(kept.open, id, was.owner ~= '' and now + TOLD_MS or now, now)
  else
    redis.call('ZREM', kept.open, id)
    if was.status ~= 'parked' then redis.call('HDEL', job, 'signature') end
  end
  for _, follower in ipairs(cjson.decode(was.followers or '[]')) do redis.call('ZADD', kept.open, 'XX', now, follower) end
  if status ~= 'exhausted' then redis.call('HDEL', job, 'retry_at') end
  -- What is asked goes with the record: it must not outlive the time that it may be kept.
  redis.call('EXPIRE', job, dead and kept.dead_ttl or kept.answer_ttl)
  redis.call('EXPIRE', attempts, dead and math.max(kept.ledger_ttl, kept.dead_ttl) or kept.ledger_ttl)
  if dead then
    redis.call('ZADD', kept.dead, now, id)
    redis.call('ZREMRANGEBYSCORE', kept.dead, '-inf', now - kept.dead_ttl * 1000)
    keep(kept.dead, kept.dead_ttl * 1000)
  end
end
