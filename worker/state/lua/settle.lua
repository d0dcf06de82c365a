-- Record what came of an attempt and what it taught, and give back what it held; with an end, the job ends here, and
-- so it does where nothing of its plan is left. An owner whose fence is old changes nothing.
-- Uses gates, leases, rules, limits, permits, breaker, likings, lanes, pace.
local fence, n, row, place, status, answer = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local last, reason, lesson, now = ARGV[7], ARGV[8], cjson.decode(ARGV[9]), now_ms(ARGV[10])

local record = fields(job, 'fence', 'status', 'deadline_at', 'permit', 'next', 'again', 'plan', 'owner', 'told', 'teller',
  'telling_at', 'ended_at')
if not record.fence then return {'gone'} end
if record.fence ~= fence then return {'fenced'} end
local permit = record.permit and cjson.decode(record.permit)
-- On a lane it has waited for its turn since it was admitted: that is time in a queue.
local admitted = permit and permit.n == n and redis.call('HGET', attempts, n)
local waited = admitted and cjson.decode(row).started_at - cjson.decode(admitted).started_at or 0
if waited > 0 then redis.call('HINCRBY', job, 'queued_ms', math.floor(waited * 1000 + 0.5)) end
if ENDED[record.status] and permit then
  -- Others have ended the job meanwhile: what the call cost is told, but its answer is nobody's.
  local told = '"outcome":"unknown","reason":"' .. (record.status == 'expired' and 'deadline' or 'crashed') .. '"'
  row = string.gsub(row, '"outcome":"answered","reason":null', told, 1)
end
if permit or not ENDED[record.status] then
  redis.call('HSET', attempts, n, row)
  redis.call('PEXPIRE', attempts, math.max(tonumber(record.deadline_at) - now, 0) + ALL.ledger_ttl * 1000)
end
if not permit or permit.n ~= n then
  if ENDED[record.status] then return {'over', view(job, attempts), now, 0, 0} end
  return {'ok', 0}
end
redis.call('HDEL', job, 'permit')
local caller = string.match(permit.holder, '^%S+') -- whose call it was

-- What was reserved and not taken; of an answer whose tokens are not known all was taken.
local function unused(s)
  local tokens = lesson.worked and 0 or permit.tokens
  -- One absurd count must not close a stage for days.
  local most = math.max(10 * permit.tokens, MINUTE_US)
  if lesson.tokens and s.tpm then tokens = permit.tokens - math.min(cost(lesson.tokens, s.tpm), most) end
  return lesson.reached and 0 or permit.requests, tokens, lesson.nano and permit.nano - lesson.nano or 0
end

local still = give_back_leases(permit)
local s, alarm, suspect = stage_of(permit.stage), false, false
if s then
  if s.host then shorten_lane(s, caller, now) end
  local requests, tokens, nano = unused(s)
  refund(permit, requests, tokens, nano, now)
  if s.lane ~= 'cloud' then
    if lesson.reached then note_pace(s.lane, cjson.decode(row), now) end
    note_in_hand(s.lane, -1, now)
  end
  local known = renewed(s)
  alarm, suspect = likings(s, known, lesson, reason, now)
  if tonumber(known.generation or 0) == permit.generation and (still or not permit.probe) then
    judge(s, lesson, reason, permit.probe, now)
  end
end
alarm = alarm and 1 or 0
if ENDED[record.status] then
  local others = record.told == '1' or is_being_told(workers, record, now, ALL.dead_after)
  if not others then redis.call('HSET', job, 'teller', caller, 'telling_at', now) end
  return {'over', view(job, attempts), now, alarm, others and 1 or 0}
end

-- Which places of the plan are tried again once it has been walked: one that has throttled this job and is closed for
-- it, unless it has done so again and again.
local function kept_for_later()
  local again, found = {}, {}
  for _, one in ipairs(cjson.decode(record.again or '[]')) do found[one] = true end
  local closed_now = lesson.throttled and s and closed_for(redis.call('HGET', gates, s.name), now, s.id)
  local often = closed_now and redis.call('HINCRBY', job, 'throttled:' .. place, 1) or 0
  found[place] = closed_now and often < ALL.most_throttled or nil
  for one in pairs(found) do again[#again + 1] = one end
  table.sort(again)
  redis.call('HSET', job, 'again', #again > 0 and cjson.encode(again) or '[]')
  return again
end

if suspect then status = '' end
if lesson.dropped == '' then
  local reached = math.max(tonumber(record.next), place + 1)
  redis.call('HSET', job, 'next', reached)
  local again = kept_for_later()
  if status == '' and reached >= #cjson.decode(record.plan) and #again == 0 then status = last end
end
if status == '' then return {'ok', alarm} end
if answer ~= '' then redis.call('HSET', job, 'answer', answer) end
-- It was put back, and nobody has it yet: it is this owner who ends it, and tells.
if record.owner == '' then redis.call('HSET', job, 'owner', caller) end
finish(job, attempts, status, now, ENDS, ALL.unfit)
return {'over', view(job, attempts), now, alarm, 0}
