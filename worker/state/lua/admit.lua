-- Claim a job and give its next stage a permit, writing down every stage before it that cannot run, and why.
-- KEYS: the record, the ledger, the living workers, the gates, then every stage's own hash.
local job, attempts, workers, gates = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lane, worker, fence, stages = ARGV[1], ARGV[2], ARGV[3], ARGV[4], cjson.decode(ARGV[5])
local dead_after, answer_ttl, ledger_ttl = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local now, delivery, unfit = now_ms(ARGV[9]), ARGV[10], cjson.decode(ARGV[11])

local function over(status)
  finish(job, attempts, status, now, answer_ttl, ledger_ttl, unfit)
  return {'over', view(job, attempts), now}
end

local function record_row(name, reason, later, left)
  local n = redis.call('HLEN', attempts) + 1
  local stage = stages[name] or {model = ''}
  -- What a call costs that its worker does not live to settle is not known, but in the house.
  local row = {n = n, of = n + later, stage = name, model = stage.model, started_at = now / 1000, duration_s = 0,
    outcome = reason and 'skipped' or 'started', reason = reason, worker = worker,
    cost_usd = (reason or stage.home) and 0 or nil}
  redis.call('HSET', attempts, n, cjson.encode(row))
  redis.call('PEXPIRE', attempts, left + ledger_ttl * 1000)
  return n
end

-- The reply to this owner's last admit was lost, and nothing was called: the row of that call is written anew.
local function take_back_lost_permit()
  local n = redis.call('HLEN', attempts)
  local row = redis.call('HGET', attempts, n)
  if row and string.find(row, '"outcome":"started"', 1, true) then redis.call('HDEL', attempts, n) end
end

local record = fields(job, 'status', 'owner', 'fence', 'plan', 'next', 'deadline_at', 'local_only', 'images', 'cancel',
  'enqueued_at', 'queued_ms', 'delivery')
if not record.status then return {'unknown'} end
if ENDED[record.status] then return {'over', view(job, attempts), now} end

local first = fence == '0'
if first and record.owner == owner and record.delivery == delivery then fence = record.fence end
if fence == '0' then
  if alive(workers, record.owner, now, dead_after) then return {'taken'} end
  fence = redis.call('HINCRBY', job, 'fence', 1)
  if record.owner == '' then
    redis.call('HSET', job, 'queued_ms', tonumber(record.queued_ms) + now - tonumber(record.enqueued_at))
  end
  redis.call('HSET', job, 'owner', owner, 'status', 'running', 'lane', lane, 'delivery', delivery)
  settle_orphans(attempts, now)
elseif fence ~= record.fence then
  return {'taken'}
else
  take_back_lost_permit()
end
if record.cancel then return over('cancelled') end
local left = tonumber(record.deadline_at) - now
if left <= 0 then return over('expired') end

local plan = cjson.decode(record.plan)
local kept, later = {}, 0
for place = #plan, 1, -1 do
  kept[place] = later
  local stage = stages[plan[place]]
  if stage and (stage.home or record.local_only ~= '1') then later = later + stage.reserve_ms end
end
local closed = redis.call('HMGET', gates, unpack(plan))
for place = tonumber(record.next) + 1, #plan do
  local name, reason = plan[place], nil
  local stage = stages[name]
  if not stage then reason = 'unsupported'
  elseif record.local_only == '1' and not stage.home then reason = 'local_only'
  elseif record.images == '1' and not stage.images then reason = 'capability'
  elseif left - kept[place] <= 0 then reason = 'deadline'
  else reason = closed_for(closed[place], now, stage.id) end
  if not reason and stage.lane ~= lane then
    redis.call('HSET', job, 'status', 'queued', 'owner', '', 'lane', stage.lane, 'enqueued_at', now)
    return {'elsewhere', stage.lane, name, view(job, attempts), now}
  end
  local n = record_row(name, reason, #plan - place, left)
  if not reason then
    local request = first and redis.call('HGET', job, 'request') or ''
    local notes = fields(KEYS[5 + stage.place], 'id', 'dropped')
    local dropped = notes.id == stage.id and notes.dropped or ''
    return {'permit', name, place - 1, n, left, kept[place], now, tonumber(fence), request, record.plan, dropped}
  end
  redis.call('HSET', job, 'next', place)
end
return over('exhausted')
