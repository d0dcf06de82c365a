-- How are these jobs doing? KEYS: the workers, the open jobs, the dead letters, the tickets, then a record and a ledger
-- for each job.
-- A job that nobody works on is ended here once its deadline has passed, so that no caller waits for ever; one that
-- a living worker has is given some time more to end it itself.
-- Returns the lanes that a living worker serves, then status and lane of each job.
local workers, dead_after, now = KEYS[1], tonumber(ARGV[1]), now_ms(ARGV[5])
local kept = {open = KEYS[2], dead = KEYS[3], answer_ttl = tonumber(ARGV[2]), ledger_ttl = tonumber(ARGV[3]),
  dead_ttl = tonumber(ARGV[4]), waiting = KEYS[4]}

local lanes, reply = {}, {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', workers, now - dead_after, '+inf')) do
  lanes[#lanes + 1] = string.match(member, '^([^/]*)/')
end
for i = 5, #KEYS, 2 do
  local job, attempts = KEYS[i], KEYS[i + 1]
  local record = fields(job, 'status', 'lane', 'deadline_at', 'owner')
  local status = record.status or 'unknown'
  if overdue(workers, record, now, dead_after) then
    status = 'expired'
    finish(job, attempts, status, now, kept)
  end
  reply[#reply + 1] = status
  reply[#reply + 1] = record.lane or ''
end
return {lanes, reply}
