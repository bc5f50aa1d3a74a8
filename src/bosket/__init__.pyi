# A stub, so that the names have types though no import stands in the module: the linter of layers would take such an
# import for one that everything below the scheduler makes.

from bosket.kube.client import Client as Client
from bosket.kube.kubeconfig import connect as connect
from bosket.scheduler.configuration.configuration import Configuration as Configuration
from bosket.scheduler.decide import decide as decide
from bosket.scheduler.model.decisions import Decisions as Decisions
from bosket.scheduler.model.snapshot import Snapshot as Snapshot
from bosket.scheduler.recording.recorded import Recorded as Recorded
from bosket.scheduler.recording.recorded import load as load_snapshot

__all__ = [
    "Client",
    "Configuration",
    "Decisions",
    "Recorded",
    "Snapshot",
    "__version__",
    "connect",
    "decide",
    "load_snapshot",
]

__version__: str
