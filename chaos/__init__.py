"""The real thing under a seeded schedule of faults, and an audit of every job afterwards: `python -m chaos --seed 7`.

schedule   what is done to whom and when, and who asks what: pure functions of the seed
yard       an embedded Valkey, scripted hosts, workers, and a door on every line between them
door       a TCP proxy that cuts, delays and swallows
crew       the workers: killed, paused, told to end, started again
faults     does the schedule, and notes what was really done
callers    submits the jobs, as three kinds of callers do
watch      sees each job's end, and whether it stays
evidence   what the ledgers, the records, Celery's results and the hosts' logs say
audit      the promises, held against the evidence
report     the table for a person
"""
