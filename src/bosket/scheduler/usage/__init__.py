"""The usage database: what each queue held in a window of the past, for the time-based fair share.

parameters.py  `usageDBConfig`, checked and with its defaults
window.py      which part of the past counts: sliding, tumbling, by cron.py
source.py      the one question that a store answers, and the table of stores
prometheus.py  asks a Prometheus, with KAI's queries
builtin.py     a store of its own: history.py in memory, kept in SQLite by journal.py, filled by sampling.py
fake.py        answers as it was told to, for tests
live.py        asks in the background and puts the answer into the scheduler's state
metrics.py     how old it is, what it says, how long it took
"""
