"""The scheduler: watches the cluster, decides, and asks for what it decided.

`decide(snapshot, configuration)` is the pure middle; `Scheduler` (in `loop`) is the service around it.
"""

from bosket.scheduler.decide import decide
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options

__all__ = ["Options", "Scheduler", "decide", "service"]
