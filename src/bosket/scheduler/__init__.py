"""The scheduler: watches the cluster, decides, and asks for what it decided.

`decide(snapshot, configuration)` is the pure middle; `Scheduler` (in `loop`) is the service around it.
"""

from bosket.scheduler.decide import decide
from bosket.scheduler.loop import Scheduler, SchedulerOptions, service

__all__ = ["Scheduler", "SchedulerOptions", "decide", "service"]
