"""The services that a process can run, by name: the one table behind `bosket run`, `bosket up` and `EmbeddedCluster`.

Nothing but the table is imported until a service is asked for: a process pays for what it runs. Each exports
`service(environment, options) -> Service` and an `Options` type whose defaults are KAI's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from bosket.runtime.service import Environment, Service

#: The one that the embedded API server asks in process, so that no webhooks have to be served.
ADMISSION: Final = "admission"
#: So is Grove's.
GROVE_ADMISSION: Final = "grove-admission"
#: The one that binds pods, for all schedulers of a cluster.
BINDER: Final = "binder"


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """One row: what `bosket run` calls the service, where it lives, and what it does."""

    name: str
    module: str
    purpose: str
    #: Whether it runs where nobody says which services should.
    by_default: bool = True
    #: What is different from the default options when nothing else is asked for.
    settings: Mapping[str, object] = field(default_factory=dict)

    def make(self, environment: Environment, options: object | None = None) -> Service:
        """The service, with its package's `Options`; by default, the default ones."""
        package = import_module(self.module)
        made = package.Options(**self.settings) if options is None else options
        return cast("Service", package.service(environment, made))


_BACKENDS: Final = "bosket.grove.backends"
#: `backend-kai` is grove-backends for the gangs of one scheduler alone, in a process of its own.
BACKEND_PREFIX: Final = "backend-"

SERVICES: Final = {
    entry.name: entry
    for entry in (
        ServiceEntry(
            ADMISSION, "bosket.services.admission", "checks and completes pods, queues and groups as they are written"
        ),
        ServiceEntry("podgrouper", "bosket.services.podgrouper", "makes a PodGroup for each workload's pods"),
        ServiceEntry(
            "podgroup-controller", "bosket.services.podgroup", "says in PodGroups how they fare, and what they use"
        ),
        ServiceEntry("queue-controller", "bosket.services.queue", "says in queues what is used and asked for in them"),
        ServiceEntry("scheduler", "bosket.scheduler.loop", "decides which pods run where"),
        ServiceEntry(BINDER, "bosket.services.binder", "carries the scheduler's decisions out"),
        ServiceEntry(
            "node-scale-adjuster",
            "bosket.services.node_scale",
            "lets autoscalers see what pods that share GPUs wait for",
            by_default=False,
        ),
        ServiceEntry(
            "operator",
            "bosket.services.operator",
            "deploys the others, from a Config and SchedulingShards",
            by_default=False,
        ),
        ServiceEntry(
            GROVE_ADMISSION, "bosket.grove.admission", "checks and completes PodCliqueSets as they are written"
        ),
        ServiceEntry("grove-operator", "bosket.grove.operator", "makes PodCliques, gangs and pods of PodCliqueSets"),
        ServiceEntry(
            "grove-backends", _BACKENDS, "tells each PodGang's scheduler about it, and the PodGang what came of it"
        ),
    )
}
#: What a cluster runs that needs nothing special.
DEFAULT_SERVICES: Final = tuple(entry.name for entry in SERVICES.values() if entry.by_default)


class Program(NamedTuple):
    """Something that `bosket run` starts and that is no service of a cluster."""

    name: str
    purpose: str


#: Runs in the pods that the binder makes, and nowhere else: one process for each, which answers to no lease.
RESERVATION: Final = Program("reservation", "holds a shared GPU; alone, in a reservation pod")
#: Runs on every node that has NUMA zones.
NUMA_EXPORTER: Final = Program("numa-exporter", "tells in which NUMA zones a node's pods are; alone, on each node")
#: Runs in the pods that the node scale adjuster makes: when one has its node, it has done its work.
SCALING_POD: Final = Program("scaling-pod", "does nothing, at once; alone, in a scaling pod")
#: Runs in pods of PodCliqueSets whose cliques start in an order.
GROVE_INIT_CONTAINER: Final = Program("grove-initc", "waits for the PodCliques that start first; alone, in their pods")
PROGRAMS: Final = (RESERVATION, NUMA_EXPORTER, SCALING_POD, GROVE_INIT_CONTAINER)


class UnknownService(ValueError):
    """A name that is not in the table; the message lists those that are."""

    def __init__(self, name: str, *, is_alone: bool = False, known: Sequence[str] | None = None) -> None:
        what = f'service "{name}" runs alone' if is_alone else f'there is no service "{name}"'
        super().__init__(f"{what}; there are: {', '.join(SERVICES if known is None else known)}")


def entries(names: Iterable[str]) -> list[ServiceEntry]:
    """The rows of these names, in the order of the table, each once; raises `UnknownService`."""
    wanted = set(names)
    for name in sorted(wanted):
        if any(name == program.name for program in PROGRAMS):
            raise UnknownService(name, is_alone=True)
        if name not in SERVICES and not name.startswith(BACKEND_PREFIX):
            raise UnknownService(name)
    backends = [_backend_entry(name) for name in sorted(wanted - SERVICES.keys())]
    return [*(entry for entry in SERVICES.values() if entry.name in wanted), *backends]


def _backend_entry(name: str) -> ServiceEntry:
    from bosket.grove.backends.catalogue import load_backends

    known = [f"{BACKEND_PREFIX}{each.name}" for each in load_backends()]
    if name not in known:
        raise UnknownService(name, known=known)
    backend = name.removeprefix(BACKEND_PREFIX)
    return ServiceEntry(name, _BACKENDS, f"grove-backends for {backend} alone", settings={"only": backend})
