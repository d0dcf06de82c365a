-- Who lives, and what each says of its own consumption; nothing is written.
-- KEYS: the living workers, then the hashes of those that are asked about.
-- Returns the server's milliseconds, the members with their last heartbeats, and the hashes.
local said = {}
for i = 2, #KEYS do said[#said + 1] = redis.call('HGETALL', KEYS[i]) end
return {now_ms(), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), said}
