"""A cluster in virtual time: cycle after cycle, each one's decisions carried out before the next.

What `plan` follows a change through. Binds succeed at once; evicted pods end after their grace, and those that have a
controller come back, pending, as the controller would make them: a Job's after its back-off, the others' at once.
Nothing finishes by itself, and no bind fails.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from bosket.api.core import Pod, PodCondition, PodStatus
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.keys import (
    LAST_EVICTION_ANNOTATION,
    LAST_START_ANNOTATION,
    NUMA_OBSERVED_ANNOTATION,
    NUMA_PREDICTED_ANNOTATION,
    RECEIVED_RESOURCE_TYPE_ANNOTATION,
    STALE_SINCE_ANNOTATION,
)
from bosket.api.object import KubeObject, ObjectKey, OwnerReference
from bosket.api.ownership import controller_of
from bosket.api.pod_phase import has_ended
from bosket.api.shared_gpu import group_labels, is_group_label, shared_devices
from bosket.api.time import format_time, time_or_zero
from bosket.kube.codec import gc_paused
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Changed
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Bind, Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.object_lists import LISTS

K = TypeVar("K", bound=KubeObject)

#: Between two cycles at least: as long as the API server needs to tell the scheduler what its writes came to.
CYCLE_SECONDS: Final = 1.0
#: A pod that should have been gone so long ago won't go by itself.
OVERDUE_SECONDS: Final = 120.0
#: How long a Job's controller waits before it makes a pod anew; twice as long for each one that failed before.
JOB_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 10.0, 600.0
#: Annotations that a pod gets when it is bound.
_WRITTEN_AT_BIND: Final = frozenset(
    {RECEIVED_RESOURCE_TYPE_ANNOTATION, NUMA_PREDICTED_ANNOTATION, NUMA_OBSERVED_ANNOTATION}
)


class VirtualCluster:
    """A copy of a cluster, with changes, that lives on by itself."""

    def __init__(self, cluster: Cluster, changed: Changed, gone: Iterable[Pod] = ()) -> None:
        """`changed`: objects that differ from the cluster's; `gone`: pods among them whose controllers are to make
        them anew."""
        recorded = cluster.recorded
        objects: dict[str, tuple[KubeObject, ...]] = {}
        self._objects: dict[type[KubeObject], dict[ObjectKey, Any]] = {}
        for name, each in LISTS.items():
            known: dict[ObjectKey, Any] = {obj.key: obj for obj in cluster.objects(each.kind)}
            for (kind, key), obj in changed.items():
                if kind is each.kind:
                    known.pop(key, None)
                    if obj is not None:
                        known[key] = obj
            objects[name], self._objects[each.kind] = tuple(known.values()), known
        self._configuration, self._recorded = cluster.configuration, recorded
        self._state = replace(recorded, objects=objects, now=cluster.now).state()
        self.now = self._began = cluster.now
        self._failures: Counter[str] = Counter()  # of a Job's pods, by its uid
        self._returning: list[tuple[float, Pod]] = []  # when, and the pod as it was
        self._let_return(gone)

    def get(self, kind: type[K], key: ObjectKey) -> K | None:
        """The object of the kind with that key, as it is by now."""
        found: K | None = self._objects[kind].get(key)
        return found

    def as_cluster(self) -> Cluster:
        """The cluster as it is by now, to put other questions to."""
        objects = {name: tuple(self._objects[each.kind].values()) for name, each in LISTS.items()}
        return Cluster(replace(self._recorded, objects=objects), self.now)

    def snapshot(self) -> Snapshot:
        """The cluster as it is by now."""
        with gc_paused():
            return replace(self._state.snapshot(self.now), now=self.now)

    def cycle(self) -> tuple[Snapshot, Decisions]:
        """What the scheduler decides now; `carry_out` makes it so."""
        snapshot = self.snapshot()
        return snapshot, decide(snapshot, self._configuration)

    @property
    def next_return_at(self) -> float:
        """When the next pod is made anew; infinity where none is to be."""
        return min((when for when, _ in self._returning), default=math.inf)

    def wait_until(self, moment: float) -> None:
        """Lets time pass; pods that are due come back."""
        self.now = max(self.now, moment)
        self._return_due()

    def carry_out(self, decisions: Decisions) -> bool:
        """Binds and evicts as decided, and lets the time pass that it takes; whether anything changed."""
        with gc_paused():
            self._state.remember(decisions, self.now)
            for bind in decisions.lasting_binds:
                self._bind(bind)
            bound = {bind.job.key for bind in decisions.lasting_binds}
            for job in decisions.started:
                if job.key in bound:
                    self._note(job.key, {LAST_START_ANNOTATION: format_time(self.now)})
            for stale in decisions.stale:
                if stale.job.history.stale_since is None:
                    self._note(stale.job.key, {STALE_SINCE_ANNOTATION: format_time(stale.since)})
            for job in decisions.recovered:
                self._note(job.key, {STALE_SINCE_ANNOTATION: None})
            for job_key in {each.job.key for each in decisions.lasting_evictions}:
                self._note(job_key, {LAST_EVICTION_ANNOTATION: format_time(self.now)})
            self.now += CYCLE_SECONDS
            evicted = [each.task.pod for each in decisions.lasting_evictions]
            leaving = [*evicted, *self._ending()]
            if leaving:
                self.now += max(_grace(pod) for pod in leaving)
            for pod in leaving:
                self._end(pod)
            self._let_return(evicted)
            self._return_due()
        return bool(decisions.lasting_binds or leaving)

    def _ending(self) -> Iterable[Pod]:
        """Pods that were being deleted already; those that are long overdue are stuck, and stay."""
        pods: Mapping[ObjectKey, Pod] = self._objects[Pod]
        return [
            pod
            for pod in pods.values()
            if (until := pod.metadata.deletionTimestamp) is not None
            and self._began - time_or_zero(until) < OVERDUE_SECONDS
        ]

    def _put(self, obj: KubeObject) -> None:
        self._objects[type(obj)][obj.key] = obj
        self._state.put(obj)

    def _drop(self, obj: KubeObject) -> None:
        if self._objects[type(obj)].pop(obj.key, None) is not None:
            self._state.drop(obj)

    def _bind(self, bind: Bind) -> None:
        pod = bind.task.pod
        if bind.claims or bind.extended_claim is not None or bind.volumes:
            # Devices and volumes are accounted for by the bind request until the binder has written them down.
            request = bind_request_for(bind)
            metadata = msgspec.structs.replace(request.metadata, uid=f"{pod.metadata.uid}-bind", resourceVersion="1")
            self._put(msgspec.structs.replace(request, metadata=metadata))
            return
        labels = pod.metadata.labels
        if bind.gpu_groups:
            labels = labels | group_labels(bind.gpu_groups, several=(shared_devices(pod) or 1) > 1)
        received = bind_request_for(bind).spec.receivedResourceType
        annotations = pod.metadata.annotations | {RECEIVED_RESOURCE_TYPE_ANNOTATION: received}
        ready = PodCondition(type="Ready", status="True", lastTransitionTime=format_time(self.now))
        self._put(
            msgspec.structs.replace(
                pod,
                metadata=msgspec.structs.replace(pod.metadata, labels=labels, annotations=annotations),
                spec=msgspec.structs.replace(pod.spec, nodeName=bind.node),
                status=PodStatus(phase="Running", startTime=format_time(self.now), conditions=(ready,)),
            )
        )

    def _end(self, pod: Pod) -> None:
        self._drop(pod)
        request: BindRequest | None = self._objects[BindRequest].get(pod.key)
        if request is not None:
            self._drop(request)

    def _let_return(self, gone: Iterable[Pod]) -> None:
        """Pods that were evicted come back when their controllers make them anew."""
        back = list(filter(comes_back, gone))
        self._failures.update(owner.uid for pod in back if (owner := _job_of(pod)) is not None)
        for pod in back:
            owner = _job_of(pod)
            failures = self._failures[owner.uid] if owner is not None else 0
            delay = min(JOB_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS) if failures else 0
            # What was evicted before this cluster began may be ending still: then it fails when it has ended.
            ending = self._objects[Pod].get(pod.key)
            grace = _grace(pod) if ending is not None and ending.metadata.uid == pod.metadata.uid else 0.0
            self._returning.append((self.now + grace + delay, pod))

    def _return_due(self) -> None:
        due = [pod for when, pod in self._returning if when <= self.now]
        self._returning = [each for each in self._returning if each[0] > self.now]
        for pod in due:
            self._put(made_anew(pod, self.now))

    def _note(self, key: ObjectKey, notes: Mapping[str, str | None]) -> None:
        group: PodGroup | None = self._objects[PodGroup].get(key)
        if group is not None:
            annotations = {**group.metadata.annotations, **notes}
            kept = {name: text for name, text in annotations.items() if text is not None}
            metadata = msgspec.structs.replace(group.metadata, annotations=kept)
            self._put(msgspec.structs.replace(group, metadata=metadata))


def _job_of(pod: Pod) -> OwnerReference | None:
    owner = controller_of(pod)
    return owner if owner is not None and owner.kind == "Job" else None


def comes_back(pod: Pod) -> bool:
    """Whether a controller makes another pod in the place of one that was evicted."""
    return controller_of(pod) is not None and not has_ended(pod)


def made_anew(pod: Pod, now: float) -> Pod:
    """The pod that a controller makes in the place of `pod`: the same template, nothing of its former life.

    It keeps the name. Controllers that choose another one are followed in all but that.
    """
    metadata = pod.metadata
    return Pod(
        metadata=msgspec.structs.replace(
            metadata,
            uid=f"{metadata.uid}-again",
            resourceVersion="",
            creationTimestamp=format_time(now),
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
            labels={key: value for key, value in metadata.labels.items() if not is_group_label(key)},
            annotations={key: value for key, value in metadata.annotations.items() if key not in _WRITTEN_AT_BIND},
        ),
        spec=msgspec.structs.replace(pod.spec, nodeName=""),
        status=PodStatus(phase="Pending"),
    )


def _grace(pod: Pod) -> float:
    return float(pod.spec.terminationGracePeriodSeconds or 0)
