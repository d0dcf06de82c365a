-- One job as a reader may see it: its record without the request, its ledger, the time, and where it stands if it waits.
-- Uses lanes.
-- KEYS: the record, the ledger, the tickets, the lanes' pace, what their owners say, the living workers.
-- ARGV: milliseconds after which a worker is dead; the time (tests only).
local now = now_ms(ARGV[2])
return {view(KEYS[1], KEYS[2]), now, standing(KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], now, tonumber(ARGV[1]))}
