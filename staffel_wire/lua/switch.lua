-- Switch a stage off or on by hand, or forget what its breaker and its throttle have counted.
-- Uses gates.
-- KEYS: the gates, the stage's hash, its probe.
-- ARGV: the stage, its identity, off | on | reset, milliseconds for which it is off, for which a gate is remembered
-- beyond its end, and for which the hash is kept; the time (tests only).
local gates, hash, probe = KEYS[1], KEYS[2], KEYS[3]
local stage, id, action, off_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local beyond, kept, now = tonumber(ARGV[5]), tonumber(ARGV[6]), now_ms(ARGV[7])

local function forget()
  local gone = {'reason', 'until', 'window', 'row', 'opened', 'throttles', 'last_failure', 'dropped', 'refused',
    'believed_until'}
  for _, name in ipairs(redis.call('HKEYS', hash)) do
    if string.sub(name, 1, 5) == 'loud:' then gone[#gone + 1] = name end
  end
  redis.call('HDEL', hash, unpack(gone))
  redis.call('HSET', hash, 'id', id, 'state', 'closed')
  -- A call that is under way was admitted to what is forgotten now.
  redis.call('HINCRBY', hash, 'generation', 1)
  redis.call('PEXPIRE', hash, kept)
  redis.call('DEL', probe)
end

local found = triples(redis.call('HGET', gates, stage), id)
if action == 'off' then
  found.hand = {reason = 'switched_off', ends = now + off_ms, whose = '*'}
elseif action == 'on' then
  found.hand = nil
else
  found.breaker, found.throttle = nil, nil
  forget()
end
write_gate(gates, stage, found, now, beyond)
return now
