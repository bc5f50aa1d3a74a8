"""The scheduler: watches the cluster, decides, and carries its decisions out.

`decide.decide(snapshot, configuration)` is the pure middle; `loop.Scheduler` is the service around it.
"""
