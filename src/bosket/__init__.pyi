# A stub, so that the names have types though no import stands in the module: the linter of layers would take such an
# import for one that everything below the scheduler makes.

from bosket.kube.client import Client as Client
from bosket.kube.kubeconfig import connect as connect
from bosket.scheduler.answers.cluster import Cluster as Cluster
from bosket.scheduler.configuration.configuration import Configuration as Configuration
from bosket.scheduler.decide import decide as decide
from bosket.scheduler.model.decisions import Decisions as Decisions
from bosket.scheduler.model.snapshot import Snapshot as Snapshot
from bosket.scheduler.recording.recorded import Recorded as Recorded
from bosket.scheduler.recording.recorded import load as load_snapshot
from bosket.tools.planning import Changes as Changes
from bosket.tools.planning import plan as plan

__all__ = [
    "Changes",
    "Client",
    "Cluster",
    "Configuration",
    "Decisions",
    "Recorded",
    "Snapshot",
    "__version__",
    "connect",
    "decide",
    "load_snapshot",
    "plan",
]

__version__: str
