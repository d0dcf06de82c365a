-- A worker process has ended: it lives no more, and its lane is free once the host has noticed what was broken off.
-- KEYS: the living workers, then, if it has a lane of its own, the lane's lease and what the lanes do now.
-- ARGV: the process, the lane, milliseconds for which the host is still to be left alone, the time (tests only).
-- Uses leases.
local member, lane, cool, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), now_ms(ARGV[4])
redis.call('ZREM', KEYS[1], member)
if not KEYS[2] then return 0 end
for _, holder in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if string.match(holder, '^%S+') == member then
    redis.call('ZREM', KEYS[2], holder)
    redis.call('HDEL', KEYS[3], lane)
    if cool > 0 then lease(KEYS[2], '- - 0', now, now + cool) end
    return 1
  end
end
return 0
