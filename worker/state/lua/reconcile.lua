-- Look at open jobs: end those whose deadline has passed, put back those whose worker has died, and say which are to be
-- sent, sought, or told.
-- KEYS: the living workers, the open jobs, the dead letters, the parked ones, the housekeeper's lease, the tickets, then a
-- record and a ledger for each job.
-- ARGV: milliseconds after which a worker is dead; seconds for which an answer, a ledger and a dead letter are kept; the
-- time (tests only); how many deaths make poison; milliseconds to the next look, at a running one sooner; who looks.
-- Returns for each job that needs more: its place, what, its queue, its signature ('' where its message is plain),
-- and when it was queued, or whom it follows.
--   sends: its message is to be put onto its queue; tells: onto one that is served, so that Celery hears of its end
--   gone: there is no record, but it is listed; seeks: it waits, and its message should be somewhere; follows: it waits for the end of another job
local workers, open, parked = KEYS[1], KEYS[2], KEYS[4]
local dead_after, now = tonumber(ARGV[1]), now_ms(ARGV[5])
local kept = {open = open, dead = KEYS[3], answer_ttl = tonumber(ARGV[2]), ledger_ttl = tonumber(ARGV[3]),
  dead_ttl = tonumber(ARGV[4]), waiting = KEYS[6]}
local most, looks, sooner = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

-- Who has slept itself must not judge who is dead: its own heart beats first.
local me = ARGV[9]
if not alive(workers, me, now, 3000) or not redis.call('ZSCORE', KEYS[5], me .. ' - 0') then return {} end

local function again_at(id, record, ms)
  local at, ends = now + ms, tonumber(record.deadline_at)
  look_at(open, id, ends > now and math.min(at, ends) or at, now)
end

local function told(job, id, record)
  if record.celery ~= '1' or record.told == '1' then
    redis.call('ZREM', open, id)
    if redis.call('ZSCORE', parked, id) == false then redis.call('HDEL', job, 'signature') end
    return nil
  end
  -- The longer it takes, the more rarely: its message may wait in a long queue.
  look_at(open, id, now + math.max(TOLD_MS, now - tonumber(record.ended_at)), now)
  return not is_being_told(workers, record, now, dead_after) and 'tells' or nil
end

local function put_back(job, id, record)
  local permit = record.permit and cjson.decode(record.permit)
  if permit and permit.onward then -- it is not to be asked again where it was
    record.lane = permit.onward
    redis.call('HSET', job, 'lane', record.lane)
  end
  redis.call('HSET', job, 'status', 'queued', 'owner', '', 'enqueued_at', now)
  -- To the front, since it has waited; what is more than plain, Celery sends to the back.
  take_ticket(kept.waiting, job, id, queue_of(record.lane, record.priority), now * 1000, not record.signature)
  again_at(id, record, looks)
  return 'sends'
end

-- Its owner, if there is one, tells nobody of this end.
local function ended(job, attempts, status, why)
  redis.call('HSET', job, 'owner', '')
  finish(job, attempts, status, now, kept, {}, why)
end

local function running(job, attempts, id, record)
  if alive(workers, record.owner, now, dead_after) then return again_at(id, record, sooner) end
  if record.cancel then return ended(job, attempts, 'cancelled') end
  local deaths = record.permit and died(job) or 0
  if deaths < most then return put_back(job, id, record) end
  ended(job, attempts, 'exhausted', poisoned(deaths))
end

local function waiting(job, id, record)
  again_at(id, record, looks)
  if record.status == 'queued' then return 'seeks' end
  if record.follows then return 'follows' end
  -- Its worker died before it had put it into its line.
  if redis.call('ZSCORE', parked, id) == false then return put_back(job, id, record) end
end

-- Its time was over before anybody looked: what else is listed of it is taken out by whoever asked.
local function gone(id)
  look_at(open, id, now + looks, now)
  return 'gone'
end

local reply = {}
for i = 7, #KEYS, 2 do
  local job, attempts, what = KEYS[i], KEYS[i + 1], nil
  local id = string.match(job, '{(.*)}$')
  local record = fields(job, 'status', 'owner', 'deadline_at', 'lane', 'celery', 'teller', 'follows', 'signature',
    'enqueued_at', 'ended_at', 'told', 'telling_at', 'cancel', 'permit', 'priority')
  local look = tonumber(redis.call('ZSCORE', open, id) or nil)
  if not look or look > now then -- somebody else has looked meanwhile
  elseif not record.status then what = gone(id)
  elseif ENDED[record.status] then what = told(job, id, record)
  elseif overdue(workers, record, now, dead_after) then ended(job, attempts, 'expired')
  elseif record.status == 'running' then what = running(job, attempts, id, record)
  else what = waiting(job, id, record) end
  if what then
    reply[#reply + 1] = {(i - 7) / 2, what, queue_of(record.lane or '', record.priority), record.signature or '', record.follows or record.enqueued_at or ''}
  end
end
return reply
