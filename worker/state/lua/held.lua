-- The jobs whose messages a living consumer holds: it refreshes the times of those that it has not acknowledged.
-- KEYS: kombu's index of unacknowledged messages, by time in seconds, and the messages. ARGV: seconds for which one counts
-- as held, the time in ms (tests only).
local fresh, now = tonumber(ARGV[1]), now_ms(ARGV[2])

local found, tags = {}, redis.call('ZRANGEBYSCORE', KEYS[1], now / 1000 - fresh, '+inf')
for first = 1, #tags, 1000 do
  local last = math.min(first + 999, #tags)
  for _, held in ipairs(redis.call('HMGET', KEYS[2], unpack(tags, first, last))) do
    local read, content = pcall(cjson.decode, held or '')
    local message = read and type(content) == 'table' and content[1]
    local about = type(message) == 'table' and message.properties
    local id = type(about) == 'table' and about.correlation_id
    if type(id) == 'string' then found[#found + 1] = id end
  end
end
return found
