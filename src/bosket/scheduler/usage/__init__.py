"""The usage database: what each queue held in a window of the past, for the time-based fair share. Its parameters are
in `bosket.scheduler.configuration` (usage_db, usage_parameters, usage_window).

source.py      the interface of a store
stores.py      the table of stores, and the fake one
prometheus.py  asks a Prometheus, with KAI's queries
builtin.py     a store of its own: history.py in memory (samples of what queues hold), kept in SQLite by journal.py
live.py        asks in the background and puts the answer into the scheduler's state
metrics.py     how old it is, what it says, how long it took
"""
