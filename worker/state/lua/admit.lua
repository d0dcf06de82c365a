-- Claim a job and give its next stage a permit, writing down every stage before it that cannot run, and why.
-- Uses gates, leases, rules, limits, permits, lanes, pace.
local owner, lane, worker, fence, delivery, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local now = now_ms(ARGV[7])

-- The job is nowhere expected any more: in no line, and no stage's probe is kept for it.
local function leave(plan)
  leave_lines(id)
  for _, name in ipairs(plan and cjson.decode(plan) or {}) do
    local s = stage_of(name)
    if s then give_back(KEYS[s.probe], kept_for(id)) end
  end
end

local record = fields(job, 'status', 'owner', 'fence', 'plan', 'next', 'deadline_at', 'local_only', 'images', 'cancel',
  'enqueued_at', 'queued_ms', 'delivery', 'again', 'permit', 'chain', 'tokens_in', 'tokens_out', 'parked_for', 'follows',
  'deaths', 'told', 'teller', 'ended_at', 'celery', 'telling_at', 'priority')

local function over(status, retry_at, why)
  leave(record.plan)
  if retry_at then redis.call('HSET', job, 'retry_at', retry_at) end
  finish(job, attempts, status, now, ENDS, ALL.unfit, why)
  return {'over', view(job, attempts), now, 0}
end

if not record.status then
  leave()
  return {'unknown'}
end
if ENDED[record.status] then
  leave(record.plan)
  if record.told ~= '1' then
    local mine = record.teller == owner and record.delivery == delivery -- the reply was lost
    if not mine and is_being_told(workers, record, now, ALL.dead_after) then return {'taken'} end
    redis.call('HSET', job, 'teller', owner, 'telling_at', now, 'delivery', delivery)
  end
  if record.celery ~= '1' then redis.call('HDEL', job, 'signature') end
  return {'over', view(job, attempts), now, tonumber(record.told or 0)}
end
-- It shares the end of another job: that one's record is not among the keys.
if record.follows and not record.cancel and tonumber(record.deadline_at) > now then
  return {'follows', record.follows}
end

-- The job is this owner's from now on.
local function claim()
  if record.owner == '' then
    redis.call('HSET', job, 'queued_ms', tonumber(record.queued_ms) + now - tonumber(record.enqueued_at))
  end
  redis.call('HSET', job, 'owner', owner, 'status', 'running', 'lane', lane, 'delivery', delivery)
  local s = record.parked_for and stage_of(record.parked_for)
  if s then give_back(KEYS[s.probe], kept_for(id)) end
  redis.call('HDEL', job, 'parked_for', 'retry_at')
  give_up_ticket(tickets, job)
  redis.call('ZADD', open, 'NX', now + ALL.looks_ms, id) -- all workers may have been away for days
  keep(open, ALL.day_ms)
  leave_lines(id)
end

local permit = record.permit and cjson.decode(record.permit)
local first, deaths = fence == '0', 0
if first and record.owner == owner and record.delivery == delivery then fence = record.fence end
if fence == '0' then
  if alive(workers, record.owner, now, ALL.dead_after) then return {'taken'} end
  if record.owner ~= '' and record.permit then deaths = died(job) end
  fence = tostring(redis.call('HINCRBY', job, 'fence', 1))
  claim()
  settle_orphans(attempts, now)
  if permit then
    record.next, record.again = passed_unknown(permit, record)
    give_back_leases(permit)
    redis.call('HDEL', job, 'permit')
  end
elseif fence ~= record.fence then
  return {'taken'}
else
  -- The reply to this owner's last admit was lost: the row of that call is written anew.
  if permit then take_back(permit, now) end
  -- The reply that sent the job elsewhere was lost, so that nobody else was told of it.
  if record.owner == '' then claim() end
end
if record.cancel then return over('cancelled') end
local left = tonumber(record.deadline_at) - now
if left <= 0 then return over('expired') end
if deaths >= ALL.max_deliveries then return over('exhausted', nil, poisoned(deaths)) end

local plan, again = cjson.decode(record.plan), cjson.decode(record.again or '[]')
local kept, later = {}, 0
for place = #plan, 1, -1 do
  kept[place] = later
  local reserve = ALL.reserves[plan[place]]
  if reserve and (reserve.home or record.local_only ~= '1') then later = later + reserve.ms end
end
local gate = redis.call('HMGET', gates, unpack(plan))
local chain = ALL.chains[record.chain or '']

-- The rows of this admit, written at its end: one call for all of them, one for the record.
local rows, reached, before, here = {}, tonumber(record.next), redis.call('HLEN', attempts), cjson.encode(worker)
local ROW = '{"n":%d,"of":%d,"stage":%s,"model":%s,"started_at":%.14g,"duration_s":0,"outcome":"%s",%s"worker":%s,' ..
  '"cost_usd":%s%s}'

-- What a call costs that its worker does not live to settle is not known, but in the house.
local function row(place, s, reason, detail)
  local n = before + #rows / 2 + 1
  rows[#rows + 1] = n
  rows[#rows + 1] = string.format(ROW, n, n + #plan - place, cjson.encode(plan[place]), s and s.model or '""',
    now / 1000, reason and 'skipped' or 'started', reason and '"reason":"' .. reason .. '",' or '', here,
    (reason or s.home) and '0' or 'null', detail and ',"detail":"' .. detail .. '"' or '')
  return n
end

local function write_rows()
  if #rows == 0 then return end
  redis.call('HSET', attempts, unpack(rows))
  redis.call('PEXPIRE', attempts, left + ALL.ledger_ttl * 1000)
  redis.call('HSET', job, 'next', reached, 'again', #again > 0 and cjson.encode(again) or '[]')
end

-- Why a stage can never serve this job.
local function unfit(s, place)
  if not s then return 'unsupported' end
  if record.local_only == '1' and not s.home then return 'local_only' end
  if record.images == '1' and not s.images then return 'capability' end
  return left - kept[place] <= 0 and 'deadline' or nil
end

-- Tokens, and billionths of a USD.
local function estimate(s)
  local input = tonumber(record.tokens_in or 0)
  local output = math.min(tonumber(record.tokens_out or '') or s.max_out, s.max_out)
  return input + output, math.ceil(input * s.nano_in + output * s.nano_out)
end

-- Why a stage may not be asked now, from when it may, whether that is worth waiting for; else whether as a probe.
local function blocked(s, place)
  local reason, ends, due = closed_for(gate[place], now, s.id)
  if reason then return reason, ends, true end
  -- The owner of the lane finds out itself.
  if due and s.probe_ms then return 'breaker_open', now + ALL.later_ms, true end
  if due then
    give_back(KEYS[s.probe], kept_for(id))
    if probe_taken(s, now) then return 'breaker_open', now + ALL.later_ms, true end
  end
  local tokens, nano = estimate(s)
  local from = limited(s, tokens, now)
  if from then return 'limit', from, true end
  if over_budget(s, chain, nano, now) then return 'budget', end_of_day(now), false end
  return nil, nil, due
end

-- Whether a job would wait for its turn on another lane for longer than it has: how long that is, in words.
local function too_long(s, place)
  if s.lane == lane or s.lane == 'cloud' then return nil end
  local wait, has = wait_on(s.lane, record.priority, now), left - kept[place]
  if not wait or wait <= has then return nil end
  return string.format('about %.0f s until its turn, %.0f s left', wait / 1000, has / 1000)
end

local function handed_on(s, due)
  write_rows()
  if due then lease(KEYS[s.probe], kept_for(id), now, now + ALL.on_its_way_ms) end
  redis.call('HSET', job, 'status', 'queued', 'owner', '', 'lane', s.lane, 'enqueued_at', now)
  take_ticket(tickets, job, id, queue_of(s.lane, record.priority), now * 1000, false)
  return {'elsewhere', s.lane, s.name, view(job, attempts), now,
    standing(job, tickets, paces, lanes, workers, now, ALL.dead_after)}
end

-- Where the job goes on whose call nobody saw the end of, if this stage is not to be asked again.
local function lane_after(place)
  for later = place + 1, #plan do
    local s = stage_of(plan[later])
    if s and not unfit(s, later) then return s.lane end
  end
end

-- Take all that the call needs, and write down what that was.
local function taken(s, place, n, due)
  local tokens, nano = estimate(s)
  local found = renewed(s)
  local taking = {n = n, stage = s.name, place = place - 1, generation = tonumber(found.generation or 0), probe = due,
    holder = owner .. ' ' .. id .. ' ' .. fence, requests = s.rpm and cost(1, s.rpm) or 0,
    tokens = s.tpm and cost(tokens, s.tpm) or 0, nano = nano, day = end_of_day(now), chain = record.chain}
  -- Where one runs after the other, it waits for its turn, for its model to be loaded, and then for its answer.
  local longest = s.host and left - kept[place] or math.min(s.timeout_ms, left - kept[place])
  local ends = now + longest + ALL.probe_after_ms
  if s.skips_unknown then taking.onward = lane_after(place) end
  if due then lease(KEYS[s.probe], taking.holder, now, ends) end
  lease(KEYS[s.places], taking.holder, now, ends)
  if s.rpm then move(KEYS[s.account], 'requests_full_at', taking.requests, now) end
  if s.tpm then
    move(KEYS[s.account], 'tokens_full_at', taking.tokens, now)
    redis.call('HSET', KEYS[s.account], 'tokens_each', string.format('%.0f', taking.tokens))
  end
  if nano > 0 then
    spend(KEYS[s.hash], nano, now)
    if chain then spend(KEYS[chain.key], nano, now) end
  end
  redis.call('HSET', job, 'permit', cjson.encode(taking))
  if s.lane ~= 'cloud' then note_in_hand(s.lane, 1, now) end
  return tonumber(found.believed_until or 0) > now and found.dropped or ''
end

-- Whether nobody else has this owner's lane. From now on nobody follows it before this call must have ended: it may be
-- paused in it.
local function holds_lane(s)
  local holder = redis.call('ZRANGE', KEYS[s.host], 0, 0)[1]
  if not holder then return true end
  if string.match(holder, '^%S+') ~= owner then return false end
  redis.call('ZADD', KEYS[s.host], 'GT', now + ALL.lease_ms + s.host_ms, holder)
  keep(KEYS[s.host], ALL.lease_ms + s.host_ms)
  return true
end

local function granted(s, place, due)
  if s.lane ~= lane then return handed_on(s, due) end
  if s.host and not holds_lane(s) then return {'displaced'} end
  local n = row(place, s, nil)
  write_rows()
  local dropped = taken(s, place, n, due)
  local request = first and redis.call('HGET', job, 'request') or ''
  return {'permit', s.name, place - 1, n, left, kept[place], now, tonumber(fence), request, record.plan, dropped,
    due and 1 or 0}
end

-- A stage that could run, but for the jobs that wait for it: where no other can, it is taken all the same.
local full = nil
local function crowded(s, place, due)
  full = full or {s = s, place = place, due = due, reached = reached, rows = #rows, again = #again}
end

-- As if nobody had looked beyond the full lane: what was passed over after it has no row.
local function back_to_full()
  for i = #rows, full.rows + 1, -1 do rows[i] = nil end
  for i = #again, full.again + 1, -1 do again[i] = nil end
  reached = full.reached
  return granted(full.s, full.place, full.due)
end

-- The stages that may run later: where, from when, and whether it is worth waiting for.
local waiting = {}
local function passed_over(place, name, reason, from, parkable)
  waiting[#waiting + 1] = {place = place, name = name, reason = reason, from = from, parkable = parkable}
end

local already = #again
for place = reached + 1, #plan do
  local name = plan[place]
  local s = stage_of(name)
  local reason, from, also = unfit(s, place), nil, nil
  if not reason then reason, from, also = blocked(s, place) end
  local detail = not reason and too_long(s, place) or nil
  if not reason and not detail then return granted(s, place, also) end
  if detail then
    crowded(s, place, also)
    reason, from, also = 'lane_full', now, false
  end
  row(place, s, reason, detail)
  reached = place
  if from then
    passed_over(place, name, reason, from, also)
    again[#again + 1] = place - 1
  end
end
-- Of these one of this lane comes before one of another: on the way there its turn may pass, again and again.
local handed = nil
for i = 1, already do
  local place = again[i] + 1
  local name = plan[place]
  local s = stage_of(name)
  if not unfit(s, place) then
    local reason, from, also = blocked(s, place)
    if reason then passed_over(place, name, reason, from, also)
    elseif s.lane == lane then return granted(s, place, also)
    elseif too_long(s, place) then crowded(s, place, also)
    else handed = handed or {s, place, also} end
  end
end
if handed then return granted(unpack(handed)) end
if full then return back_to_full() end
write_rows()

table.sort(waiting, function(one, other) return one.place < other.place end)
local best, earliest = nil, nil
for _, one in ipairs(waiting) do
  -- What is off until somebody switches it on may be asked again at an instant that nobody knows.
  local is_known = one.from - now < ALL.longest_ms
  if is_known and (not earliest or one.from < earliest) then earliest = one.from end
  local in_time = one.from < tonumber(record.deadline_at) - kept[one.place]
  if one.parkable and in_time and (not best or one.from < best.from) then best = one end
end
if not best then return over('exhausted', earliest) end
local s = stage_of(best.name)
redis.call('HSET', job, 'status', 'parked', 'owner', '', 'lane', s.lane, 'enqueued_at', now, 'parked_for', best.name,
  'retry_at', best.from)
return {'parked', best.name, s.lane, best.reason, best.from, view(job, attempts), now}
