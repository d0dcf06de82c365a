-- A worker that ends gives back a job that it has under way: it waits in its queue again, and nobody saw what came of its
-- call, if one was made (`called`). Or the job has broken its walk (`died`): too often, and it ends here. Returns 0 where it
-- was not the owner's any more.
-- Uses gates, leases, rules, limits, permits.
local owner, now, broken, called = ARGV[1], now_ms(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local record = fields(job, 'status', 'owner', 'permit', 'next', 'again', 'lane', 'priority', 'cancel')
if record.status ~= 'running' or record.owner ~= owner then return 0 end
local permit = record.permit and cjson.decode(record.permit)
if permit and not called then
  take_back(permit, now)
  permit = nil
end
settle_orphans(attempts, now, not broken and 'drained' or nil)
if permit then
  passed_unknown(permit, record)
  give_back_leases(permit)
  redis.call('HDEL', job, 'permit')
end
if record.cancel then
  redis.call('HSET', job, 'owner', '') -- it tells nobody of this end
  finish(job, attempts, 'cancelled', now, ENDS, ALL.unfit)
  return 1
end
local deaths = broken and died(job) or 0
if deaths >= ALL.max_deliveries then
  redis.call('HSET', job, 'owner', '')
  finish(job, attempts, 'exhausted', now, ENDS, ALL.unfit, poisoned(deaths))
  return 1
end
local lane, id = permit and permit.onward or record.lane, string.match(job, '{(.*)}$')
redis.call('HSET', job, 'status', 'queued', 'owner', '', 'enqueued_at', now, 'lane', lane)
take_ticket(tickets, job, id, queue_of(lane, record.priority), now * 1000, true)
look_at(open, id, now + ALL.looks_ms, now)
return 1
