-- A job whose message is nowhere is to be sent again, unless it has gone on since it was missed.
-- KEYS: the record, the open jobs, the tickets. ARGV: when it was queued as far as is known, milliseconds to the next look, the time
-- (tests only). Returns 1 where it is to be sent.
local job, open, id = KEYS[1], KEYS[2], string.match(KEYS[1], '{(.*)}$')
local queued, looks, now = ARGV[1], tonumber(ARGV[2]), now_ms(ARGV[3])

local record = fields(job, 'status', 'enqueued_at', 'lane', 'priority', 'signature')
if record.status ~= 'queued' or record.enqueued_at ~= queued then return 0 end
redis.call('HSET', job, 'enqueued_at', now)
-- Its message goes to the front of its queue; one that Celery sends, to the back.
take_ticket(KEYS[3], job, id, queue_of(record.lane, record.priority), now * 1000, not record.signature)
look_at(open, id, now + looks, now)
return 1
