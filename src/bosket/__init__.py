"""Bosket schedules AI workloads on Kubernetes: gangs, fair hierarchical queues, shared GPUs, topology.

The names below are for other programs; CONTRIBUTING shows their use, and the stub file beside has their types. Each is
imported when it is first used: `bosket --help` and a plugin that needs one class don't pay for the scheduler.
"""

from importlib import import_module
from typing import Any, Final

__version__ = "0.1.0"

_PUBLIC: Final = {
    "Client": ("bosket.kube.client", "Client"),
    "Configuration": ("bosket.scheduler.configuration.configuration", "Configuration"),
    "Decisions": ("bosket.scheduler.model.decisions", "Decisions"),
    "Recorded": ("bosket.scheduler.recording.recorded", "Recorded"),
    "Snapshot": ("bosket.scheduler.model.snapshot", "Snapshot"),
    "connect": ("bosket.kube.kubeconfig", "connect"),
    "decide": ("bosket.scheduler.decide", "decide"),
    "load_snapshot": ("bosket.scheduler.recording.recorded", "load"),
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
