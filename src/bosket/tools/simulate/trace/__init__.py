"""A trace of jobs, replayed in virtual time: what a scheduling policy would have made of it.

job.py      reads the trace
cluster.py  nodes, queues and gangs as the scheduler sees them
policy.py   the scheduler's configuration for each policy
run.py      goes from event to event: arrivals, ends, decisions
figures.py  waits, use, and how good estimates were
chart.py    draws them
"""
