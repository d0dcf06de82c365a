-- What a call has taken from all workers while it runs is written in its job's record, so that whoever follows can give
-- it back: `n`, `stage`, its `place` in the plan, the lane `onward`, `holder` of its leases, `probe`, the stage's `generation`, what it took of the
-- buckets (`requests`, `tokens`, in microseconds) and of the `day`'s money (`nano`, `chain`).

-- Who asks the lane's host no more may be followed soon, should it stand still.
local function shorten_lane(s, owner, now)
  local holder = redis.call('ZRANGE', KEYS[s.host], 0, 0)[1]
  if not holder or string.match(holder, '^%S+') ~= owner then return end
  local calls, said = {}, redis.call('HGET', lanes, s.lane)
  for i, place in ipairs(ALL.calls_of[s.lane]) do calls[i] = KEYS[place] end
  local busy = said and cjson.decode(said).busy
  if not busy and not has_leases(calls, owner) then
    redis.call('ZADD', KEYS[s.host], 'XX', now + ALL.lease_ms, holder)
  end
end

-- Give back the leases; whether a probe still had its own.
local function give_back_leases(permit)
  local s = stage_of(permit.stage)
  if not s then return false end
  give_back(KEYS[s.places], permit.holder)
  return permit.probe and give_back(KEYS[s.probe], permit.holder)
end

-- Put back so much of what was reserved; `nano` may be negative where a call was dearer than estimated.
local function refund(permit, requests, tokens, nano, now)
  local s = stage_of(permit.stage)
  if not s then return end
  if s.rpm then move(KEYS[s.account], 'requests_full_at', -requests) end
  if s.tpm then move(KEYS[s.account], 'tokens_full_at', -tokens) end
  if nano ~= 0 and permit.day == end_of_day(now) then
    spend(KEYS[s.hash], -nano, now)
    local chain = permit.chain and ALL.chains[permit.chain]
    if chain then spend(KEYS[chain.key], -nano, now) end
  end
end

-- Nothing was called: as if it had never been admitted.
local function take_back(permit, now)
  give_back_leases(permit)
  refund(permit, permit.requests, permit.tokens, permit.nano, now)
  redis.call('HDEL', attempts, permit.n)
  redis.call('HDEL', job, 'permit')
end

-- Where the plan goes on after a call that nobody saw the end of: at the same stage, unless that is not to be asked then.
local function passed_unknown(permit, record)
  local s, reached = stage_of(permit.stage), tonumber(record.next)
  if not (s and s.skips_unknown and permit.place) then return reached, record.again end
  local again = {}
  for _, one in ipairs(cjson.decode(record.again or '[]')) do
    if one ~= permit.place then again[#again + 1] = one end
  end
  local text = #again > 0 and cjson.encode(again) or '[]'
  reached = math.max(reached, permit.place + 1)
  redis.call('HSET', job, 'next', reached, 'again', text)
  return reached, text
end
