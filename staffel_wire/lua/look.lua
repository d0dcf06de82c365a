-- One job as a reader may see it: its record without the request, its ledger, and the time.
return {view(KEYS[1], KEYS[2]), now_ms(ARGV[1])}
