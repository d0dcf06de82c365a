-- A stage of this lane whose breaker is due, for its owner to find out with a request of its own whether it works again.
-- Returns its name and its generation; nothing where there is none. Without an owner it is only told, and not taken.
-- Uses gates, leases, rules.
local owner, lane, now = ARGV[1], ARGV[2], now_ms(ARGV[3])
for _, name in ipairs(ALL.names) do
  local s = stage_of(name)
  if s and s.lane == lane and s.probe_ms then
    local reason, _, due = closed_for(redis.call('HGET', gates, name), now, s.id)
    if due and not reason and not probe_taken(s, now) then
      if owner ~= '' then lease(KEYS[s.probe], owner .. ' - 0', now, now + s.probe_ms) end
      return {name, tonumber(renewed(s).generation or 0)}
    end
  end
end
return {}
