-- What came of such a probe, if nothing has changed meanwhile.
-- Uses gates, leases, rules, breaker.
local owner, generation, lesson, reason, now = ARGV[1], tonumber(ARGV[3]), cjson.decode(ARGV[4]), ARGV[5], now_ms(ARGV[6])
local s = stage_of(ARGV[2])
if not s or not give_back(KEYS[s.probe], owner .. ' - 0') then return 0 end
if tonumber(renewed(s).generation or 0) ~= generation then return 0 end
judge(s, lesson, reason, true, now)
return 1
