"""Grove's scheduler backends: PodGang → what the chosen scheduler understands, and its status back into the PodGang.

`backend` says what a backend is, `registry` which one a gang has; `kai` and its siblings are pure renderings, `applier`
and `service` keep a cluster as they say. The Grove operator asks `GangBackends` when it makes gangs and pods.
"""

from bosket.grove.backends.backend import Refused, Rendering, SchedulerBackend, Surroundings, Verdict, prepare_pod
from bosket.grove.backends.facade import GangBackends
from bosket.grove.backends.registry import Registry, UnknownBackend
from bosket.grove.backends.service import Options, service

__all__ = [
    "GangBackends",
    "Options",
    "Refused",
    "Registry",
    "Rendering",
    "SchedulerBackend",
    "Surroundings",
    "UnknownBackend",
    "Verdict",
    "prepare_pod",
    "service",
]
