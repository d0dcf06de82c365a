-- The dead letters, newest first: with the set alone as KEYS their ids, else what is known of these jobs.
-- A job that is none, or is so no more, is taken out of the set.
-- Uses letters.
-- KEYS: the dead letters; then a record and a ledger for each job.
-- ARGV: the ids of these jobs, as JSON; what of each: 'brief' (of its attempts the last that was a call), 'whole' (all
-- of them) or 'request' (the request too); the greatest score, how many of the newest to pass over, how many to take.
-- Returns the ids, each with its score, or for each job its status where it is none, else its fields, its attempts, how many they are, the
-- milliseconds that it is kept for, and the time.
local dead, ids, what = KEYS[1], cjson.decode(ARGV[1]), ARGV[2]
if #KEYS == 1 then
  return redis.call('ZREVRANGEBYSCORE', dead, ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', ARGV[4], ARGV[5])
end

-- Skips say little where a call has failed; where there was no call, the last of them.
local function last_call(attempts)
  local most = redis.call('HLEN', attempts)
  for n = most, 1, -1 do
    local row = redis.call('HGET', attempts, n)
    if row and not string.find(row, '"outcome":"skipped"', 1, true) then return {n, row} end
  end
  local row = redis.call('HGET', attempts, most)
  return row and {most, row} or {}
end

local reply, now = {}, now_ms()
for i, id in ipairs(ids) do
  local job, attempts = KEYS[2 * i], KEYS[2 * i + 1]
  local status = redis.call('HGET', job, 'status')
  if is_dead(job, status) then
    local record, ledger = unpack(view(job, attempts))
    if what == 'request' then
      record[#record + 1] = 'request'
      record[#record + 1] = redis.call('HGET', job, 'request')
    end
    reply[i] = {record, what == 'brief' and last_call(attempts) or ledger, redis.call('HLEN', attempts),
      redis.call('PTTL', job), now}
  else
    redis.call('ZREM', dead, id)
    reply[i] = status or 'unknown'
  end
end
return reply
