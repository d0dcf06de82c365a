-- A dead letter still has what it asks.
local function is_dead(job, status)
  return DIES[status or ''] == true and redis.call('HEXISTS', job, 'request') == 1
end
