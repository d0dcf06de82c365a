-- What one worker process says of its consumption, with the messages that it holds kept fresh by the server's clock: a
-- worker whose own is wrong would else hold them for ever, or give them away.
-- KEYS: the worker's hash, the index of unacknowledged messages, then the lists of its queue.
-- ARGV: the hash's TTL (s), how many words follow for it (field, value, ...), these, then the tags that are held.
-- Returns the server's milliseconds, and how many messages wait.
local hash, index, ttl, words = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local now = now_ms()

local said = {}
for i = 1, words, 2 do said[ARGV[2 + i]] = ARGV[3 + i] end
if redis.call('HGET', hash, 'taken') ~= said.taken then redis.call('HSET', hash, 'taken_at', now) end
redis.call('HSET', hash, 'beat_at', now, unpack(ARGV, 3, 2 + words))
redis.call('EXPIRE', hash, ttl)

for i = 3 + words, #ARGV do redis.call('ZADD', index, 'XX', string.format('%.3f', now / 1000), ARGV[i]) end
local waiting = 0
for i = 3, #KEYS do waiting = waiting + redis.call('LLEN', KEYS[i]) end
return {now, waiting}
