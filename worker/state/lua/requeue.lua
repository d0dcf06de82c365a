-- A job whose message is nowhere is to be sent again, unless it has gone on since it was missed.
-- KEYS: the record, the open jobs. ARGV: when it was queued as far as is known, milliseconds to the next look, the time
-- (tests only). Returns 1 where it is to be sent.
local job, open = KEYS[1], KEYS[2]
local queued, looks, now = ARGV[1], tonumber(ARGV[2]), now_ms(ARGV[3])

local record = fields(job, 'status', 'enqueued_at')
if record.status ~= 'queued' or record.enqueued_at ~= queued then return 0 end
redis.call('HSET', job, 'enqueued_at', now)
look_at(open, string.match(job, '{(.*)}$'), now + looks, now)
return 1
