-- Have a dead letter walked again under its own id, in one step: it is queued as a new job is, and goes on in its ledger.
-- Uses letters.
-- KEYS: the record, the ledger, the open jobs, the dead letters, Celery's result, the tickets, then both queues of each
-- lane.
-- ARGV: the id; the stage to begin with ('' for the first); where each stage runs as JSON, `{STAGE: [place of its lane,
-- whether it is in the house]}`; the message for each queue as JSON; milliseconds until the deadline ('' for as many as
-- it was given), for which the record outlives it, for which the ledger does, and until housekeeping looks; the time
-- (tests only).
-- Returns queued and its lane; or why not: none and its status, plan (the stage is not in it) or nowhere (no stage left
-- is known), and the plan.
local job, attempts, open, dead, result, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id, from, places, messages = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local beyond_ms, ledger_ms, looks_ms, now = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), now_ms(ARGV[9])

local record = fields(job, 'status', 'plan', 'local_only', 'deadline_ms', 'fence', 'priority')
if not is_dead(job, record.status) then return {'none', record.status or 'unknown'} end

local plan, first = cjson.decode(record.plan), from == '' and 1 or nil
for place, stage in ipairs(plan) do
  if not first and stage == from then first = place end
end
if not first then return {'plan', record.plan} end
-- The walk passes over what is not known any more, and what is not in the house where it must be.
local lane = nil
for place = first, #plan do
  local found = places[plan[place]]
  if not lane and found and (found[2] or record.local_only ~= '1') then lane = found[1] end
end
if not lane then return {'nowhere', record.plan} end

-- What belongs to the former life; what hung on it in Celery has had its end.
local gone = {'ended_at', 'answer', 'why', 'retry_at', 'cancel', 'follows', 'followers', 'teller', 'permit',
  'parked_for', 'signature', 'delivery', 'told'}
for _, name in ipairs(redis.call('HKEYS', job)) do
  if string.sub(name, 1, 10) == 'throttled:' then gone[#gone + 1] = name end
end
redis.call('HDEL', job, unpack(gone))
local deadline_ms = tonumber(ARGV[5]) or tonumber(record.deadline_ms)
local at = 2 * lane - (record.priority == 'batch' and 0 or 1)
local queue, name = KEYS[6 + at], KEYS[5 + 2 * lane]
-- The fence goes on counting: whoever walked the former life must not settle this one.
redis.call('HSET', job, 'status', 'queued', 'submitted_at', now, 'enqueued_at', now, 'queued_ms', 0, 'lane', name,
  'deadline_ms', deadline_ms, 'deadline_at', now + deadline_ms, 'next', first - 1, 'again', '[]', 'deaths', 0,
  'fence', tonumber(record.fence or 0) + 1, 'owner', '')
redis.call('PEXPIRE', job, deadline_ms + beyond_ms)
if redis.call('EXISTS', attempts) == 1 then keep(attempts, deadline_ms + ledger_ms) end
take_ticket(waiting, job, id, queue, now * 1000, false)
look_at(open, id, now + math.min(looks_ms, deadline_ms), now)
redis.call('ZREM', dead, id)
-- Else Celery takes the end of the former life for this one's.
redis.call('DEL', result)
redis.call('LPUSH', queue, messages[at])
return {'queued', name}
