"""What a scheduler backend is: a way to tell one scheduler about PodGangs, in objects that it understands.

A backend does no I/O. It renders a PodGang into the objects that should exist (`sync`), into what the gang's pods carry
from their creation on (`pod_additions`), and reads what the scheduler made of it (`verdict`). `service` keeps the
cluster as it says, for all backends alike. To write one, subclass `SchedulerBackend`: see docs/grove-backends.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.core.pod import PodSchedulingGate
from bosket.api.grove import PodCliqueSet, PodGang
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.ownership import controller_reference
from bosket.api.table import resource_of
from bosket.grove.backends.former_place import prefer_former_places

T = TypeVar("T", bound=KubeObject)


class Refused(Exception):
    """The scheduler has no objects that express this gang; retrying is useless until gang or cluster change."""

    def __init__(self, message: str, reason: str = "BackendRefused") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a backend may know of the cluster beside the gang."""

    #: (apiVersion, kind) of all that the API server serves.
    served: frozenset[tuple[str, str]] = frozenset()
    #: The set that controls the gang, if one does.
    owner: PodCliqueSet | None = None
    #: Objects of the backend's `kinds` that the gang owns.
    owned: tuple[KubeObject, ...] = ()
    #: The gang's pods, in no particular order.
    pods: tuple[Pod, ...] = ()
    #: Pods of the gang whose place this one should take.
    former: tuple[Pod, ...] = ()
    #: All objects of the kinds that the backend `reads`.
    related: tuple[KubeObject, ...] = ()

    def serves(self, kind: type[KubeObject]) -> bool:
        return identity(kind) in self.served

    def owned_of(self, kind: type[T]) -> list[T]:
        return [each for each in self.owned if isinstance(each, kind)]

    def related_of(self, kind: type[T]) -> list[T]:
        return [each for each in self.related if isinstance(each, kind)]


@dataclass(frozen=True, slots=True)
class Rendering:
    """What should exist for a gang, in the order in which it is made."""

    objects: tuple[KubeObject, ...] = ()
    #: Sentences about parts of the gang that the scheduler's objects can't express.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the scheduler says about a gang, as far as pods don't show it."""

    #: Why it isn't scheduled.
    reason: str = ""
    message: str = ""
    #: Why it is not what it should be though it runs; empty if it is.
    unhealthy: str = ""
    #: Why it is about to lose its place; empty if it isn't.
    disruption: str = ""


def identity(kind: type[KubeObject]) -> tuple[str, str]:
    """apiVersion and kind, as `Surroundings.served` has them."""
    resource = resource_of(kind)
    return resource.api_version, resource.kind


class SchedulerBackend(ABC):
    """One scheduler's part in Grove."""

    #: What labels, annotations and the command line call it.
    name: ClassVar[str]
    #: What pods say in `schedulerName` when their clique doesn't.
    scheduler_name: ClassVar[str]
    #: Kinds of the objects that it may make.
    kinds: ClassVar[tuple[type[KubeObject], ...]] = ()
    #: Kinds that it reads without making them.
    reads: ClassVar[tuple[type[KubeObject], ...]] = ()
    #: Keeps pods from being scheduled until the scheduler's objects are there.
    gate: ClassVar[str | None] = None

    def kinds_in(self, served: frozenset[tuple[str, str]]) -> tuple[type[KubeObject], ...]:
        """Those of its `kinds` that it makes in a cluster that serves this; they are watched."""
        return tuple(kind for kind in self.kinds if identity(kind) in served)

    @abstractmethod
    def matches(self, scheduler_name: str) -> bool:
        """Whether pods with this `schedulerName`, which isn't empty, are its scheduler's."""

    @abstractmethod
    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        """What should exist for the gang; raises `Refused`."""

    def delete(self, gang: PodGang, cluster: Surroundings) -> tuple[KubeObject, ...]:
        """What has to go when the gang isn't this backend's any more. (When the gang goes, its objects go with it.)"""
        del gang
        return cluster.owned

    def check_gang_ready(self, gang: PodGang, cluster: Surroundings) -> bool:
        """Whether the scheduler knows all that it must before the first pod is offered to it; raises `Refused`."""
        owned = {(type(each), each.metadata.name): each for each in cluster.owned}
        for wanted in self.sync(gang, cluster).objects:
            found = owned.get((type(wanted), wanted.metadata.name))
            if found is None or found.metadata.deletionTimestamp or self.update(found, wanted) != found:
                return False
        return True

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        """`found` as it should be; None where it can't be changed into that and has to be made anew.

        What others wrote into its metadata stays.
        """
        return with_content_of(found, wanted)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        """The pod with what the scheduler wants of it; raises `Refused`. Called before the pod is created."""
        del gang, cluster
        return pod

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        """The scheduler's verdict on the gang; raises `Refused` where the scheduler did not accept its objects."""
        del gang, cluster
        return Verdict()


def prepare_pod(backend: SchedulerBackend, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
    """The pod as it is to be created: schedulerName, the backend's additions, and its gate while it isn't ready.

    The gate comes after those that the pod has. Raises `Refused` where the pod lacks what says which gang it is of.
    """
    for label, value in ((keys.GROVE_POD_GANG_LABEL, gang.metadata.name), (keys.GROVE_POD_CLIQUE_LABEL, None)):
        found = pod.metadata.labels.get(label)
        if not found or (value is not None and found != value):
            raise Refused(f"pod {pod.key} of PodGang {gang.key} has label {label} {found!r}")
    if not pod.spec.schedulerName:
        pod = with_spec(pod, schedulerName=backend.scheduler_name)
    pod = backend.pod_additions(gang, prefer_former_places(gang, pod, cluster.former), cluster)
    if backend.gate is None or _is_ready(backend, gang, cluster):
        return pod
    if any(each.name == backend.gate for each in pod.spec.schedulingGates):
        return pod
    return with_spec(pod, schedulingGates=(*pod.spec.schedulingGates, PodSchedulingGate(name=backend.gate)))


def _is_ready(backend: SchedulerBackend, gang: PodGang, cluster: Surroundings) -> bool:
    try:
        return backend.check_gang_ready(gang, cluster)
    except Refused:
        return False


def with_spec(pod: Pod, **fields: object) -> Pod:
    """The pod with other values in its spec."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def with_metadata(pod: Pod, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Pod:
    """The pod with more labels and annotations."""
    metadata = msgspec.structs.replace(
        pod.metadata,
        labels={**pod.metadata.labels, **(labels or {})},
        annotations={**pod.metadata.annotations, **(annotations or {})},
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def with_content_of(found: T, wanted: KubeObject) -> T:
    """What was found, with the spec of what is wanted, and with its metadata on top."""
    spec: Any = wanted
    return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted), spec=spec.spec)


def owned_metadata(gang: PodGang, name: str, *, annotations: dict[str, str] | None = None) -> ObjectMeta:
    """Metadata of an object that goes when the gang goes, and has the gang's labels."""
    return ObjectMeta(
        name=name,
        namespace=gang.metadata.namespace,
        labels=dict(gang.metadata.labels),
        annotations=annotations or {},
        ownerReferences=(controller_reference(gang),),
    )


def merged_metadata(found: KubeObject, wanted: KubeObject, keep_labels: Iterable[str] = ()) -> ObjectMeta:
    """What was found, with what is wanted on top, but for labels that are somebody else's once they are there."""
    kept = {key: found.metadata.labels[key] for key in keep_labels if found.metadata.labels.get(key)}
    others = tuple(
        each
        for each in found.metadata.ownerReferences
        if each.uid not in {wanted_one.uid for wanted_one in wanted.metadata.ownerReferences}
    )
    return msgspec.structs.replace(
        found.metadata,
        labels={**found.metadata.labels, **wanted.metadata.labels, **kept},
        annotations={**found.metadata.annotations, **wanted.metadata.annotations},
        ownerReferences=(*others, *wanted.metadata.ownerReferences),
    )
