"""What happened to jobs: starts and evictions, made of events and of what pod groups remember, for `bosket events`.

An API server keeps events for an hour or so. Of what is older there is the last start and the last eviction of each
job, which its pod group remembers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from bosket.api.core import Event, Pod
from bosket.api.eviction_note import eviction_note
from bosket.api.kai import PodGroup
from bosket.api.keys import (
    EVICTION_NOTE_ANNOTATION,
    EVICTOR_ACTION_ANNOTATION,
    EVICTOR_POD_GROUP_ANNOTATION,
    EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION,
    LAST_EVICTION_ANNOTATION,
    LAST_START_ANNOTATION,
    POD_GROUP_ANNOTATION,
)
from bosket.api.object import ObjectKey
from bosket.api.time import time_or_zero
from bosket.scheduler.answers.workload_name import shown_names

#: Pods of a job that start, or go, within so many seconds of each other do so together.
_TOGETHER_SECONDS: Final = 60.0
_SCHEDULED: Final = "Scheduled"
_EVICTED: Final = "Evict"
_NODE: Final = re.compile(r"to node (\S+)")
# Names have no slashes: where two repetitions could share them, a message of slashes is tried in all ways.
_EVICTED_POD: Final = re.compile(r"[Pp]od:? ([^\s/]+/[^\s/]+?)\b(?: was|$|\n)")
_RULE: Final = re.compile(r"^(?:Reclaim|Preempt|Consolidation|Stale gang): (.+)$", re.MULTILINE)
# Anybody may write events: only what is a number, and one of this world, is read as one.
_LOST: Final = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,12})?) of workload", re.ASCII)
#: What controllers add to the names of pods.
_RANDOM_END: Final = re.compile(r"-[a-z0-9]{5}$")

Kind = Literal["started", "evicted"]


class Happening(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of one job that started, or were evicted, together."""

    time: float  #: epoch seconds, of the first of them
    kind: Kind
    namespace: str
    job: str  #: the workload's name
    queue: str  #: empty where it isn't known any more
    pods: int  #: 0: not known
    nodes: tuple[str, ...] = ()  #: where they started
    by: str = ""  #: the job for which they went, as NAMESPACE/NAME
    action: str = ""  #: that decided the eviction
    why: str = ""  #: by which rule
    lost_gpu_hours: float | None = None  #: run time times GPUs that the eviction threw away; None: not known


def history(
    events: Iterable[Event], groups: Sequence[PodGroup], pods: Iterable[Pod], since: float
) -> tuple[Happening, ...]:
    """Starts and evictions since then, the oldest first."""
    by_key = {group.key: group for group in groups}
    jobs = _Jobs(shown_names(groups), by_key, {pod.key: _group_of(pod) for pod in pods})
    told = _of_events(events, jobs, since)
    found = _with_remembered(told, _remembered(groups, jobs, since))
    return tuple(sorted(found, key=lambda each: (each.time, each.kind, each.namespace, each.job)))


class _Jobs:
    """What events' objects are called as jobs."""

    def __init__(
        self,
        names: Mapping[ObjectKey, str],
        groups: Mapping[ObjectKey, PodGroup],
        group_of_pod: Mapping[ObjectKey, ObjectKey | None],
    ) -> None:
        self._names, self._groups, self._group_of_pod = names, groups, group_of_pod
        self._group_called = {(key.namespace, name): key for key, name in names.items()}

    def of_group(self, key: ObjectKey) -> tuple[str, str]:
        """Name and queue of a pod group; one that is gone is called by its own name."""
        group = self._groups.get(key)
        return (self._names[key], group.spec.queue) if group is not None else (key.name, "")

    def of_pod(self, key: ObjectKey) -> tuple[str, str]:
        """The same of the job that a pod belongs to. One that is gone is called without what its controller added."""
        group = self._group_of_pod.get(key)
        if group is None:
            stem = _RANDOM_END.sub("", key.name)
            group = self._group_called.get((key.namespace, stem))
            if group is None:
                return stem, ""
        return self.of_group(group)


def _group_of(pod: Pod) -> ObjectKey | None:
    name = pod.metadata.annotations.get(POD_GROUP_ANNOTATION)
    return ObjectKey(pod.metadata.namespace, name) if name else None


class _Together:
    """Events that are about the same thing."""

    def __init__(self, event: Event, time: float) -> None:
        self.first, self.times, self.pods = event, [time], set[str]()
        self.nodes: set[str] = set()

    def add(self, event: Event, time: float) -> None:
        self.times.append(time)
        about = event.involvedObject
        evicted = _EVICTED_POD.search(event.message) if about.kind == "PodGroup" else None
        self.pods.add(evicted[1] if evicted is not None else f"{about.namespace}/{about.name}")
        if event.reason == _SCHEDULED and (node := _NODE.search(event.message)) is not None:
            self.nodes.add(node[1])


def _of_events(events: Iterable[Event], jobs: _Jobs, since: float) -> list[Happening]:
    timed = sorted(((_time(event), event) for event in events), key=lambda each: each[0])
    groups: dict[tuple[str, ...], _Together] = {}
    found: list[tuple[tuple[str, ...], _Together]] = []
    for time, event in timed:
        about = event.involvedObject
        if time < since or (event.reason, about.kind) not in ((_SCHEDULED, "Pod"), (_EVICTED, "PodGroup")):
            continue
        key = ObjectKey(about.namespace, about.name)
        job, queue = jobs.of_pod(key) if about.kind == "Pod" else jobs.of_group(key)
        what = (event.reason, about.namespace, job, queue, _evictor(event, jobs))
        known = groups.get(what)
        if known is None or time - known.times[-1] > _TOGETHER_SECONDS:
            known = groups[what] = _Together(event, time)
            found.append((what, known))
        known.add(event, time)
    return [_happening(what, together) for what, together in found]


def _happening(what: tuple[str, ...], together: _Together) -> Happening:
    reason, namespace, job, queue, evictor = what
    message = together.first.message
    rule, lost = _RULE.search(message), _LOST.search(message)
    return Happening(
        time=together.times[0],
        kind="started" if reason == _SCHEDULED else "evicted",
        namespace=namespace,
        job=job,
        queue=queue,
        pods=len(together.pods),
        nodes=tuple(sorted(together.nodes)),
        by=evictor,
        action=together.first.metadata.annotations.get(EVICTOR_ACTION_ANNOTATION, ""),
        why=rule[1] if rule is not None else "",
        lost_gpu_hours=float(lost[1]) if lost is not None else None,
    )


def _evictor(event: Event, jobs: _Jobs) -> str:
    """The job that took the place, as NAMESPACE/NAME."""
    annotations = event.metadata.annotations
    name = annotations.get(EVICTOR_POD_GROUP_ANNOTATION)
    if event.reason != _EVICTED or not name:
        return ""
    namespace = annotations.get(EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION, "")
    return f"{namespace}/{jobs.of_group(ObjectKey(namespace, name))[0]}"


def _time(event: Event) -> float:
    return time_or_zero(event.firstTimestamp or event.eventTime or event.metadata.creationTimestamp)


def _remembered(groups: Iterable[PodGroup], jobs: _Jobs, since: float) -> list[Happening]:
    """The last start and the last eviction of each job."""
    found = []
    for group in groups:
        annotations, (job, queue) = group.metadata.annotations, jobs.of_group(group.key)
        started = time_or_zero(annotations.get(LAST_START_ANNOTATION))
        if started >= max(since, 1.0):
            found.append(Happening(started, "started", group.metadata.namespace, job, queue, pods=0))
        evicted = _remembered_eviction(group, jobs)
        if evicted is not None and evicted.time >= max(since, 1.0):
            found.append(evicted)
    return found


def _remembered_eviction(group: PodGroup, jobs: _Jobs) -> Happening | None:
    """The last eviction; of what another scheduler evicted only the time is known."""
    annotations, (job, queue) = group.metadata.annotations, jobs.of_group(group.key)
    time = time_or_zero(annotations.get(LAST_EVICTION_ANNOTATION))
    note = eviction_note(annotations.get(EVICTION_NOTE_ANNOTATION, ""))
    if note is None:
        return Happening(time, "evicted", group.metadata.namespace, job, queue, pods=0) if time else None
    namespace, _, name = note.by.rpartition("/")
    return Happening(
        note.seconds or time,
        "evicted",
        group.metadata.namespace,
        job,
        queue,
        pods=note.pods,
        by=f"{namespace}/{jobs.of_group(ObjectKey(namespace, name))[0]}" if note.by else "",
        action=note.action,
        why=note.why,
        lost_gpu_hours=note.lostGpuHours or None,
    )


def _with_remembered(told: Sequence[Happening], remembered: Iterable[Happening]) -> list[Happening]:
    """All of them, without what is remembered of what events tell, which is more."""
    return [
        *told,
        *(
            each
            for each in remembered
            if not any(
                (other.kind, other.namespace, other.job) == (each.kind, each.namespace, each.job)
                and abs(other.time - each.time) <= 2 * _TOGETHER_SECONDS
                for other in told
            )
        ),
    ]
