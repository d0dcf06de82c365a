-- A dead letter has ended without an answer, not by its caller's own doing, and still has what it asks.
local function is_dead(job, status)
  return (status == 'exhausted' or status == 'expired') and redis.call('HEXISTS', job, 'request') == 1
end
