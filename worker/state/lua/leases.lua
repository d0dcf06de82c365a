-- A lease is one of several places: a member `OWNER JOB FENCE` of a sorted set, scored with its end. It holds until
-- then, and only while its owner's process lives; `-` owns what is kept for a job on its way. A mutex has one place.
-- The fence makes a late owner harmless: it can give back nothing but its own.

-- The holder of what is kept for a job that no worker has yet.
local function kept_for(id)
  return '- ' .. id .. ' 0'
end

-- How many of the places are taken; the dead are looked for only where none seems free.
local function held(key, workers, most, now, dead_after)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local count = redis.call('ZCARD', key)
  if count < most then return count end
  local lives = {['-'] = true}
  for _, holder in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local owner = string.match(holder, '^%S+')
    if lives[owner] == nil then lives[owner] = alive(workers, owner, now, dead_after) or false end
    if not lives[owner] then
      redis.call('ZREM', key, holder)
      count = count - 1
    end
  end
  return count
end

local function lease(key, holder, now, ends)
  redis.call('ZADD', key, ends, holder)
  if redis.call('PTTL', key) < ends - now then redis.call('PEXPIRE', key, ends - now) end
end

-- Whether the holder still had it.
local function give_back(key, holder)
  return redis.call('ZREM', key, holder) == 1
end

-- Whether a process holds any place under these keys.
local function has_leases(keys, member)
  for _, key in ipairs(keys) do
    for _, holder in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if string.match(holder, '^%S+') == member then return true end
    end
  end
  return false
end
