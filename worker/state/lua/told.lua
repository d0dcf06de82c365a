-- Celery has heard of a job's end: who gets its message once more tells it nothing again. Or (`told` is '0') it has heard
-- something else since, and is told again.
-- KEYS: the record, the open jobs. ARGV: `told`, the time (tests only).
local job, open, told, now = KEYS[1], KEYS[2], ARGV[1], now_ms(ARGV[2])

local record = fields(job, 'status', 'celery', 'told')
if not ENDED[record.status or ''] then return end
local id = string.match(job, '{(.*)}$')
if told == '1' then
  redis.call('HSET', job, 'told', 1)
  redis.call('HDEL', job, 'signature')
  redis.call('ZREM', open, id)
elseif record.celery == '1' and record.told == '1' then
  redis.call('HDEL', job, 'told', 'teller', 'telling_at')
  look_at(open, id, now, now)
end
