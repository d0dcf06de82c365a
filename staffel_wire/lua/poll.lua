-- How are these jobs doing? KEYS: the workers, then a record and a ledger for each job.
-- A job that nobody works on is ended here once its deadline has passed, so that no caller waits for ever; one that
-- a living worker has is given some time more to end it itself.
-- Returns the lanes that a living worker serves, then status and lane of each job.
local workers = KEYS[1]
local dead_after, answer_ttl, ledger_ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms(ARGV[4])

local lanes, reply = {}, {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', workers, now - dead_after, '+inf')) do
  lanes[#lanes + 1] = string.match(member, '^([^/]*)/')
end
for i = 2, #KEYS, 2 do
  local job, attempts = KEYS[i], KEYS[i + 1]
  local record = fields(job, 'status', 'lane', 'deadline_at', 'owner')
  local status = record.status or 'unknown'
  local late = record.deadline_at and now - tonumber(record.deadline_at) or 0
  if late > 0 and not ENDED[status] and (late > dead_after or not alive(workers, record.owner, now, dead_after)) then
    status = 'expired'
    finish(job, attempts, status, now, answer_ttl, ledger_ttl)
  end
  reply[#reply + 1] = status
  reply[#reply + 1] = record.lane or ''
end
return {lanes, reply}
