-- A job that has the idempotency key of another one shares its end, unless that one ends by its own deadline or cancel:
-- then it goes its own way.
-- KEYS: the record, the ledger, the other's record, the open jobs, the dead letters, the key's hash, the tickets.
-- ARGV: milliseconds to the next look; seconds for which an answer, a ledger and a dead letter are kept; the other's id;
-- the time (tests only); the job's own id.
-- Returns waits, over, goes, unknown, or `instead` and whom it follows by now.
local job, attempts, other, open, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]
local looks, leader, now = tonumber(ARGV[1]), ARGV[5], now_ms(ARGV[6])
local kept = {open = open, dead = KEYS[5], answer_ttl = tonumber(ARGV[2]), ledger_ttl = tonumber(ARGV[3]),
  dead_ttl = tonumber(ARGV[4]), waiting = KEYS[7]}
local SHARED = {answered = true, exhausted = true, refused = true}

local record = fields(job, 'status', 'deadline_at', 'follows', 'told', 'lane', 'priority',
  'signature')
local ends = fields(other, 'status', 'answer', 'followers')
if not record.status then return {'unknown'} end
if ENDED[record.status] then return {'over', view(job, attempts), now, tonumber(record.told or 0)} end
if record.follows ~= leader then return {'goes'} end
local id = string.match(job, '{(.*)}$')
if ends.status and not ENDED[ends.status] then
  local found, is_there = cjson.decode(ends.followers or '[]'), false
  for _, one in ipairs(found) do is_there = is_there or one == id end
  if not is_there then
    found[#found + 1] = id
    redis.call('HSET', other, 'followers', cjson.encode(found))
  end
  redis.call('HSET', job, 'status', 'parked', 'owner', '')
  give_up_ticket(kept.waiting, job)
  look_at(open, id, math.min(now + looks, math.max(tonumber(record.deadline_at), now)), now)
  return {'waits', view(job, attempts), now}
end
if not SHARED[ends.status or ''] then
  local holder = redis.call('HGET', key, 'job')
  if holder and holder ~= leader and holder ~= id then
    redis.call('HSET', job, 'follows', holder)
    return {'instead', holder}
  end
  if holder then redis.call('HSET', key, 'job', id) end
  redis.call('HDEL', job, 'follows')
  redis.call('HSET', job, 'status', 'queued', 'enqueued_at', now)
  local queue = queue_of(record.lane, record.priority)
  take_ticket(kept.waiting, job, id, queue, now * 1000, not record.signature)
  return {'goes'}
end
if ends.answer then redis.call('HSET', job, 'answer', ends.answer) end
local why = ends.status ~= 'answered' and 'job ' .. leader .. ' has the same idempotency key, and ended so' or nil
finish(job, attempts, ends.status, now, kept, {}, why)
return {'over', view(job, attempts), now, 0}
