-- A worker process says that it lives, learns which of its jobs their callers have cancelled, whether it is the one that
-- keeps house, and whose its lane is.
-- KEYS: the living workers, the housekeeper's lease, the parked jobs, what the lanes do now, then, if it has a lane of its
-- own, the lane's lease and the leases of the calls of its stages; then the records of this process's jobs.
-- ARGV: the process, after how many milliseconds one is dead, the time (tests only), how many keys its lane has, and
-- what it says of that (see lane_lease.py).
-- Returns whether it is this process that keeps house, whether parked jobs are to be sent on by it, the places of the
-- cancelled, and the lane: this process's term, else its owner and for how long that was silent; whether this process
-- was known.
-- Uses leases.
local workers, housekeeper, parked, lanes, member = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local dead_after, day, now, of_lane = tonumber(ARGV[2]), 86400, now_ms(ARGV[3]), tonumber(ARGV[4])
-- Shorter than a death: who follows into the office does at most what was done already.
local office = 3000
-- Beats of one instant are so far apart at most.
local together = 2000

-- Where nobody has been heard for some time, not this one alone (Redis was away, the machine slept, the clock was set),
-- those who were heard as lately as this one are given their time anew.
local last = tonumber(redis.call('ZSCORE', workers, member) or nil)
local slept = last and (now < last or now - last > dead_after / 2)
if slept and redis.call('ZCOUNT', workers, string.format('(%.0f', last + together), '+inf') == 0 then
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', workers, last - together, '+inf')) do
    redis.call('ZADD', workers, now, other)
  end
end
redis.call('ZADD', workers, now, member)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now - 60000)
redis.call('EXPIRE', workers, day)
local cancelled = {}
local first = 5 + of_lane
for i = first, #KEYS do
  if redis.call('HEXISTS', KEYS[i], 'cancel') == 1 then cancelled[#cancelled + 1] = i - first end
end
local holder = member .. ' - 0'
local mine = redis.call('ZSCORE', housekeeper, holder) or held(housekeeper, workers, 1, now, dead_after) == 0
if mine then lease(housekeeper, holder, now, now + office) end

-- The lane's lease is one place. It ends by itself, and no heart that stands still ends it sooner: a paused owner may
-- have a call at the host. Only where its connection is gone as well is it taken away.
local function of(holder)
  local owner, fence = string.match(holder or '', '^(%S+) %S+ (%S+)$')
  return owner or '', tonumber(fence or 0)
end

-- Whether nobody has had the lane since this process had it.
local function had_it_last()
  local said = redis.call('HGET', lanes, ARGV[5])
  return said and cjson.decode(said).owner == member
end

local function whose_lane(key)
  local short, long, fence = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  local busy = ARGV[15] == '1'
  local met, may_take, bereaved, cool = ARGV[9] == '1', ARGV[10] == '1', ARGV[11], tonumber(ARGV[12])
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local holder = redis.call('ZRANGE', key, 0, 0)[1]
  local owner, term = of(holder)
  local heard = tonumber(redis.call('ZSCORE', workers, owner) or nil)
  local silent = owner ~= '' and owner ~= '-' and now - (heard or 0) or 0
  if owner == bereaved and silent >= short then
    redis.call('ZREM', key, holder)
    holder, silent = nil, 0
    -- The call that it broke off is noticed late by the host.
    if cool > 0 then
      holder = '- - 0'
      lease(key, holder, now, now + cool)
    end
    owner, term = of(holder)
  end
  -- Where all was lost, whoever had the lane is to have it again, under the same number.
  if not holder and may_take and (last or not met or fence > 0) then
    owner, term = member, fence > 0 and (not last or had_it_last()) and fence or now
    holder = string.format('%s - %.0f', member, term)
  end
  if owner ~= member then return {0, owner, silent, last and 1 or 0} end
  local ends = now + short
  local calls = {}
  for i = 6, 4 + of_lane do calls[#calls + 1] = KEYS[i] end
  if has_leases(calls, member) or tonumber(ARGV[14]) > 0 or busy then ends = now + long end
  lease(key, holder, now, ends)
  local seen = {owner = member, since = ARGV[13] ~= '' and now - tonumber(ARGV[13]) or nil,
    in_hand = tonumber(ARGV[14]), busy = busy or nil, at = now}
  redis.call('HSET', lanes, ARGV[5], cjson.encode(seen))
  redis.call('EXPIRE', lanes, day)
  return {term, '', 0, last and 1 or 0}
end

local lane = of_lane > 0 and whose_lane(KEYS[5]) or {}
return {mine and 1 or 0, mine and redis.call('ZCARD', parked) > 0 and 1 or 0, cancelled, lane}
