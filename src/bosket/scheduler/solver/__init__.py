"""The search for victims: which running tasks must go so that a pending job fits, and is it worth it.

`Search.solve` tries scenarios on one statement: evict these, place those with the same code as everywhere else, ask the
validators, keep or undo. Actions (reclaim, preempt, consolidation) say who may be a victim and what is a just outcome.
"""
