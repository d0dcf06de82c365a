-- What is listed of jobs whose records are gone is taken out of a sorted set, the open jobs or the tickets.
-- KEYS: the set, then the record of each. ARGV: the member of each. Returns how many were taken out.
local taken_out = 0
for i, member in ipairs(ARGV) do
  if redis.call('EXISTS', KEYS[1 + i]) == 0 then taken_out = taken_out + redis.call('ZREM', KEYS[1], member) end
end
return taken_out
