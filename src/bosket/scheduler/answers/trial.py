"""One job tried on a cluster: as things are, with nobody else waiting, and with nobody else there at all.

`explain` and the search for changes ask these questions; every answer is a call of `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec

from bosket.api.core import Pod
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import ResourceClaim
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.state.own.memory import Commitments

T = TypeVar("T")

#: Kinds that an emptied cluster has nothing of, apart from the job's own.
_EMPTIED = frozenset({Pod, PodGroup, BindRequest, PodDisruptionBudget})


@dataclass(frozen=True, slots=True)
class Start:
    """How a cycle starts a job."""

    nodes: Mapping[str, str]  #: by pod
    evicts: tuple[str, ...]  #: pods that go for it
    waits: bool  #: whether it has to wait until others are gone


def start_of(decisions: Decisions, key: ObjectKey) -> Start | None:
    """How the job starts by these decisions; None when it doesn't."""
    ends = [each for each in decisions.outcome.values() if each.job.key == key]
    if not ends or any(isinstance(each, Eviction) for each in ends):
        return None
    evicts = sorted(
        str(each.task.key)
        for each in decisions.lasting_evictions
        if each.preemptor is not None and each.preemptor.key == key
    )
    nodes = {str(each.task.key): each.node for each in sorted(ends, key=lambda each: each.task.key)}
    return Start(nodes, tuple(evicts), waits=not all(isinstance(each, Bind) for each in ends))


@dataclass
class Trial:
    """Questions about one job in a cluster as it is when the first of them is asked."""

    cluster: Cluster
    key: ObjectKey
    #: what the scheduler decides in the next cycle, where that is known already
    decided: Decisions | None = None
    snapshot: Snapshot = field(init=False)
    _asked: dict[Callable[..., Any], Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.snapshot = self.cluster.snapshot()

    def ask(self, question: Callable[[Trial], T]) -> T:
        """The answer to a question that several parts of an explanation need; found out once."""
        if question not in self._asked:
            self._asked[question] = question(self)
        return cast("T", self._asked[question])

    @property
    def job(self) -> Job:
        return self.snapshot.jobs[self.key]

    @cached_property
    def placing(self) -> Decisions:
        """The cycle without searches for victims: what everybody gets of what is free."""
        self.cluster.decides += 1
        return decide(self.snapshot, self.cluster.configuration, proposals={})

    @cached_property
    def alone(self) -> Decisions:
        """The cycle if nobody else were waiting."""
        return alone(self.cluster, self.snapshot, self.key)

    @cached_property
    def start_alone(self) -> Start | None:
        """How the job would start if nobody else were waiting."""
        return start_of(self.alone, self.key)

    @cached_property
    def whole(self) -> Decisions:
        """The cycle that the scheduler would run."""
        return self.decided or self.cluster.decide(self.snapshot)

    @cached_property
    def start(self) -> Start | None:
        """How the next cycle starts the job; None when it doesn't.

        A job without a free place, for which nobody can be evicted even with nobody else waiting, isn't served when
        others have their turns as well: the whole cycle, which searches on behalf of all of them, needn't be decided.
        """
        if self.decided is not None:
            return start_of(self.decided, self.key)
        found = start_of(self.placing, self.key)
        if found is not None and not found.waits:
            return found
        if found is None and self.start_alone is None:
            return None
        return start_of(self.whole, self.key)

    @cached_property
    def emptied(self) -> Cluster:
        """The cluster with the job alone in it."""
        return emptied(self.cluster, [self.job])

    @cached_property
    def emptied_snapshot(self) -> Snapshot:
        return self.emptied.snapshot()

    @cached_property
    def empty_decisions(self) -> Decisions:
        """What is decided about the job where nobody else is."""
        self.cluster.decides += 1
        return self.emptied.decide(self.emptied_snapshot)

    @cached_property
    def starts_in_emptied(self) -> bool:
        """Whether the job starts where nobody else is, and queues are as they are."""
        return start_of(self.empty_decisions, self.key) is not None

    @cached_property
    def decisions(self) -> Decisions:
        """The decisions that say most about why the job waits: those with a search on its behalf."""
        return self.alone if self.start_alone is None else self.whole

    @cached_property
    def waiting(self) -> Waiting | None:
        """Why the job waits, with all that a search for victims on its behalf found out."""
        return next((each for each in self.decisions.waiting if each.job.key == self.key), None)


def alone(cluster: Cluster, snapshot: Snapshot, key: ObjectKey) -> Decisions:
    """What would be decided if the job were the only one that waits: a necessary condition, for much less."""
    job = snapshot.jobs[key]
    return cluster.decide(replace(snapshot, unsettled=(job,), stale=()))


def emptied(cluster: Cluster, jobs: Collection[Job]) -> Cluster:
    """The cluster as it would be with nobody but these jobs in it: nodes, queues and volumes stay, and pods that belong
    to a node rather than to anybody's work (of DaemonSets, and static ones)."""
    own = {task.key for job in jobs for task in (*job.tasks, *job.orphan_tasks)}
    groups = {job.key for job in jobs}
    objects: dict[str, tuple[KubeObject, ...]] = {}
    for name, each in LISTS.items():
        known = cluster.objects(each.kind)
        if each.kind in _EMPTIED:
            kept = groups if each.kind is PodGroup else own
            known = tuple(obj for obj in known if obj.key in kept or _belongs_to_node(obj))
        elif each.kind is ResourceClaim:
            known = tuple(_released(obj, own) for obj in known)
        objects[name] = tuple(known)
    recorded = replace(cluster.recorded, objects=objects, held=(), commitments=Commitments())
    return Cluster(recorded, cluster.now)


def _belongs_to_node(obj: KubeObject) -> bool:
    return isinstance(obj, Pod) and any(
        each.controller and each.kind in ("DaemonSet", "Node") for each in obj.metadata.ownerReferences
    )


def _released(claim: KubeObject, own: set[ObjectKey]) -> KubeObject:
    """The claim, without devices where it is others that use it."""
    assert isinstance(claim, ResourceClaim)
    users = {ObjectKey(claim.metadata.namespace, each.name) for each in claim.status.reservedFor}
    if not claim.status.reservedFor or users & own:
        return claim
    status = msgspec.structs.replace(claim.status, allocation=None, reservedFor=())
    return msgspec.structs.replace(claim, status=status)
