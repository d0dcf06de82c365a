-- A job that was given out to be sent on and has no message: its record is gone, or a worker without its stage in the
-- configuration has taken it on. It waits in no line any more, unless it was parked again meanwhile.
-- Uses gates, leases, rules.
local id = ARGV[1]

local record = fields(job, 'status', 'signature')
if record.signature and (record.status == 'parked' or ENDED[record.status]) then return 0 end
redis.call('ZREM', parked, id)
for _, place in ipairs(ALL.lines) do redis.call('ZREM', KEYS[place], id) end
return 1
