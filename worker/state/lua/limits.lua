-- Rates and budgets. A bucket is one instant in microseconds: when it will be full again (generic cell rate algorithm).
-- Money is counted in billionths of a USD.
local MINUTE_US, DAY_MS = 60000000, 86400000

local function cost(n, limit)
  return math.ceil(n * MINUTE_US / limit)
end

-- Milliseconds until a bucket has room for so much; 0 where it has. What is larger than the bucket waits until it is
-- full, and leaves it a debt.
local function wait_for(full_at, asked, capacity, now)
  local spent = math.max(0, tonumber(full_at or 0) - now * 1000)
  return math.max(0, math.ceil((spent + math.min(asked, capacity) - capacity) / 1000))
end

local function requests_room(s)
  return math.max(s.burst_us, cost(1, s.rpm))
end

-- The instant from which a stage's limits may have room for one more call of so many tokens; nil where they have.
-- Those of its line that were sent on just now come first: whoever is new would else be faster than they, for ever.
local function limited(s, tokens, now)
  if not (s.most or s.rpm or s.tpm) then return nil end
  local wait, first = 0, redis.call('ZCOUNT', KEYS[s.line], -now, ALL.later_ms - now)
  if s.most and places_taken(s, now) + first >= s.most then wait = ALL.later_ms end
  if s.rpm or s.tpm then
    local full = redis.call('HMGET', KEYS[s.account], 'requests_full_at', 'tokens_full_at', 'tokens_each')
    if s.rpm then wait = math.max(wait, wait_for(full[1], (1 + first) * cost(1, s.rpm), requests_room(s), now)) end
    if s.tpm then
      local asked = cost(tokens, s.tpm) + first * tonumber(full[3] or 0)
      local tokens_wait = wait_for(full[2], asked, s.burst_us, now)
      -- A call under way may take less than was reserved for it, and nobody knows when it ends.
      local under_way = held(KEYS[s.places], workers, math.huge, now, ALL.dead_after) > 0
      wait = math.max(wait, under_way and math.min(tokens_wait, ALL.later_ms) or tokens_wait)
    end
  end
  return wait > 0 and now + wait or nil
end

-- Move the instant at which a bucket is full: not before `now` where something is taken; what is put back, or was more
-- than reserved, counts from when it was taken (no `now`).
local function move(key, field, amount, now)
  if amount == 0 then return end
  local full_at = tonumber(redis.call('HGET', key, field) or 0)
  if now then full_at = math.max(full_at, now * 1000) end
  redis.call('HSET', key, field, string.format('%.0f', full_at + amount))
  redis.call('PEXPIRE', key, ALL.kept_ms)
end

local function end_of_day(now)
  return math.floor(now / DAY_MS) * DAY_MS + DAY_MS
end

local function spent_today(key, now)
  local found = redis.call('HMGET', key, 'spent_usd', 'spent_until')
  if not found[1] or tonumber(found[2] or 0) <= now then return 0 end
  return math.floor(tonumber(found[1]) * 1e9 + 0.5)
end

local function spend(key, nano, now)
  local total = math.max(0, spent_today(key, now) + nano)
  redis.call('HSET', key, 'spent_usd', string.format('%.0f.%09.0f', math.floor(total / 1e9), total % 1e9),
    'spent_until', string.format('%.0f', end_of_day(now)))
  redis.call('PEXPIRE', key, ALL.kept_ms)
end

-- Whether one more call of this price would go beyond the stage's or the chain's day.
local function over_budget(s, chain, nano, now)
  if nano == 0 then return false end
  if s.budget and spent_today(KEYS[s.hash], now) + nano > s.budget then return true end
  return chain ~= nil and spent_today(KEYS[chain.key], now) + nano > chain.budget
end
