"""SchedulerBackend: translates PodGangs into the objects of one scheduler.

A backend does no I/O. It renders a PodGang as the objects that should exist (`sync`), as additions to the gang's pods
(`pod_additions`), and reads the scheduler's result (`verdict`). `service` writes and watches, for all backends alike.
To write a backend, subclass `SchedulerBackend`: see docs/grove-backends.md.
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
    """What a backend may read of the cluster beside the gang."""

    #: (apiVersion, kind) of every kind that the API server serves
    served: frozenset[tuple[str, str]] = frozenset()
    #: The set that controls the gang, if one does.
    owner: PodCliqueSet | None = None
    #: Objects of the backend's `kinds` that the gang owns.
    owned: tuple[KubeObject, ...] = ()
    #: The gang's pods, in no particular order.
    pods: tuple[Pod, ...] = ()
    #: pods of the former gang whose nodes this gang should reuse
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
    """The objects that should exist for a gang, in the order of creation."""

    objects: tuple[KubeObject, ...] = ()
    #: Sentences about parts of the gang that the scheduler's objects can't express.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the scheduler reports about a gang, beyond what its pods show."""

    #: why the gang isn't scheduled
    reason: str = ""
    message: str = ""
    #: why the running gang isn't as it should be; "" if it is
    unhealthy: str = ""
    #: why the gang is about to be evicted; "" if it isn't
    disruption: str = ""


def identity(kind: type[KubeObject]) -> tuple[str, str]:
    """apiVersion and kind, as `Surroundings.served` has them."""
    resource = resource_of(kind)
    return resource.api_version, resource.kind


class SchedulerBackend(ABC):
    """The adapter of one scheduler."""

    #: the backend's name in labels, annotations and on the command line
    name: ClassVar[str]
    #: the `schedulerName` of pods whose clique names none
    scheduler_name: ClassVar[str]
    #: kinds of objects that it may create
    kinds: ClassVar[tuple[type[KubeObject], ...]] = ()
    #: kinds that it only reads
    reads: ClassVar[tuple[type[KubeObject], ...]] = ()
    #: the scheduling gate of pods until the scheduler's objects exist
    gate: ClassVar[str | None] = None

    def kinds_in(self, served: frozenset[tuple[str, str]]) -> tuple[type[KubeObject], ...]:
        """The kinds that it creates in a cluster with these served kinds; they are watched."""
        return tuple(kind for kind in self.kinds if identity(kind) in served)

    @abstractmethod
    def matches(self, scheduler_name: str) -> bool:
        """Whether pods with this (non-empty) `schedulerName` belong to its scheduler."""

    @abstractmethod
    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        """The objects that should exist for the gang; raises `Refused`."""

    def delete(self, gang: PodGang, cluster: Surroundings) -> tuple[KubeObject, ...]:
        """The objects to delete when the gang gets another backend. (When the gang is deleted, its objects are,
        too.)"""
        del gang
        return cluster.owned

    def check_gang_ready(self, gang: PodGang, cluster: Surroundings) -> bool:
        """Whether all objects that the scheduler needs before it sees the first pod exist; raises `Refused`."""
        owned = {(type(each), each.metadata.name): each for each in cluster.owned}
        for wanted in self.sync(gang, cluster).objects:
            found = owned.get((type(wanted), wanted.metadata.name))
            if found is None or found.metadata.deletionTimestamp or self.update(found, wanted) != found:
                return False
        return True

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        """`found` as it should be; None if it must be deleted and created again.

        Metadata of other writers stays.
        """
        return with_content_of(found, wanted)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        """The pod with what the scheduler needs; raises `Refused`. Called before the pod is created."""
        del gang, cluster
        return pod

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        """The scheduler's verdict on the gang; raises `Refused` where the scheduler did not accept its objects."""
        del gang, cluster
        return Verdict()


def prepare_pod(backend: SchedulerBackend, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
    """The pod to create: schedulerName, the backend's additions, and its gate while the gang isn't ready.

    The gate comes after the pod's own gates. Raises `Refused` where the pod lacks the label of its gang.
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
    """Metadata of an object that is owned by the gang, with the gang's labels."""
    return ObjectMeta(
        name=name,
        namespace=gang.metadata.namespace,
        labels=dict(gang.metadata.labels),
        annotations=annotations or {},
        ownerReferences=(controller_reference(gang),),
    )


def merged_metadata(found: KubeObject, wanted: KubeObject, keep_labels: Iterable[str] = ()) -> ObjectMeta:
    """The metadata found, with the wanted one on top, except labels that others own once the object exists."""
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
