"""A cluster without a server, in virtual time: the scheduler's decisions are carried out, late, and seen even later.

For tests that follow decisions through many cycles. `SimulatedCluster` holds the truth; the scheduler's live state
hears of it through watches that are delayed, that repeat themselves and overtake one another, all from one seed.
Binder, kubelet, eviction API with disruption budgets and the controllers that replace pods are a few lines each.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgspec

from bosket.api.core import Pod, PodCondition
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.keys import LAST_EVICTION_ANNOTATION, LAST_START_ANNOTATION, STALE_SINCE_ANNOTATION, SUBGROUP_LABEL
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from bosket.api.time import format_time
from bosket.kube.selector import label_selector
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.io.memory_store import SAVE_SECONDS
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction
from bosket.scheduler.model.proposal import by_action, split
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.memory import decode, encode
from bosket.testing.build import PodBuilder
from bosket.testing.cluster import NOW


@dataclass(frozen=True, slots=True)
class Delays:
    """How long things take at most, in seconds; each time it is anything up to that."""

    watch: float = 2.0
    write: float = 1.0
    start: float = 1.0
    end: float = 4.0
    replace: float = 3.0
    repeat_rate: float = 0.1  #: how often the watch tells the same thing twice
    bind_failure_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class _Heard:
    """What a watch tells the scheduler; a dead one hears nothing more."""

    tell: Callable[[KubeObject], None]
    obj: KubeObject

    def __call__(self) -> None:
        self.tell(self.obj)


@dataclass(frozen=True, slots=True)
class _Write:
    """What the scheduler is about to write."""

    act: Callable[[], None]

    def __call__(self) -> None:
        self.act()


@dataclass
class SimulatedCluster:
    """The cluster as it is, and what happens in it by itself."""

    random: Random
    delays: Delays = field(default_factory=Delays)
    now: float = NOW
    objects: dict[type[KubeObject], dict[ObjectKey, Any]] = field(default_factory=dict)
    state: ClusterState = field(default_factory=ClusterState)
    refused: set[ObjectKey] = field(default_factory=set)  #: pods whose eviction a budget refused
    failed_binds: set[ObjectKey] = field(default_factory=set)
    #: pod groups whose pods come back after an eviction, with what they are made of
    templates: dict[ObjectKey, PodBuilder] = field(default_factory=dict)
    memory: bytes = b""  #: what the scheduler has written down for its successor
    _dying: bool = False  #: whether the scheduler ends in the middle of what it does
    _saved_at: float = NOW
    _decided: Snapshot | None = None
    _look_again_at: float = math.inf
    _searched: tuple[Snapshot, Decisions] | None = None  #: the search that is under way
    _agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)
    _heard_at: dict[tuple[type[KubeObject], ObjectKey], float] = field(default_factory=dict)
    _names: Counter[ObjectKey] = field(default_factory=Counter)

    # ── the truth, and how it gets about ──

    def write(self, obj: KubeObject) -> None:
        """Creates or changes an object; the scheduler hears of it later."""
        self.objects.setdefault(type(obj), {})[obj.key] = obj
        self._tell(obj, _Heard(self.state.put, obj))
        if isinstance(obj, Pod):
            self._count_budgets()

    def delete(self, obj: KubeObject) -> None:
        found = self.objects.get(type(obj), {}).pop(obj.key, None)
        if found is not None:
            self._tell(found, _Heard(self.state.drop, found))
            if isinstance(obj, Pod):
                self._count_budgets()

    def pods(self, group: ObjectKey | None = None) -> list[Pod]:
        found: dict[ObjectKey, Pod] = self.objects.get(Pod, {})
        if group is None:
            return list(found.values())
        return [pod for pod in found.values() if self._group_of(pod) == group]

    def add_pod(self, group: ObjectKey) -> None:
        """One more pod of a pod group, in the sub-group that has the fewest, under a name that no other has had."""
        self._names[group] += 1
        template = self.templates[group]
        made_by = self.objects.get(PodGroup, {}).get(group)
        if isinstance(made_by, PodGroup) and made_by.spec.subGroups:
            staying = [each for each in self.pods(group) if not each.metadata.deletionTimestamp]
            members = Counter(each.metadata.labels.get(SUBGROUP_LABEL) for each in staying)
            fewest = min(made_by.spec.subGroups, key=lambda each: members[each.name])
            template = template.label(SUBGROUP_LABEL, fewest.name)
        name = f"{group.name}-{self._names[group]:03}"
        made = replace(template, name=name).build()
        self.write(_with_meta(made, creationTimestamp=format_time(self.now)))

    def pass_time(self, seconds: float) -> None:
        """Everything that is due happens, in order."""
        until = self.now + seconds
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, act = heapq.heappop(self._agenda)
            act()
        self.now = until

    def later(self, most_seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + self.random.uniform(0, most_seconds), next(self._order), act))

    def _tell(self, obj: KubeObject, tell: Callable[[], None]) -> None:
        """What is said of one object arrives in order; of two objects, anyhow."""
        key = (type(obj), obj.key)
        due = max(self.now + self.random.uniform(0, self.delays.watch), self._heard_at.get(key, 0.0))
        self._heard_at[key] = due
        for _ in range(2 if self.random.random() < self.delays.repeat_rate else 1):
            heapq.heappush(self._agenda, (due, next(self._order), tell))

    # ── what the scheduler asks for ──

    def cycle(self, configuration: Configuration) -> tuple[Snapshot, Decisions] | None:
        """One cycle, carried out as the live scheduler does it; None when there is nothing new to decide on."""
        current = self.state.snapshot(self.now)
        if current is self._decided and self.now < self._look_again_at:
            return None
        self._decided, snapshot = current, replace(current, now=self.now)
        decisions = decide(snapshot, configuration)
        self._look_again_at = decisions.look_again_at
        self._carry_out(snapshot, decisions)
        return snapshot, decisions

    def place(self, configuration: Configuration) -> tuple[Snapshot, Decisions]:
        """A cycle that only places, as in the live scheduler, which searches for victims beside it."""
        snapshot = replace(self.state.snapshot(self.now), now=self.now)
        decisions = decide(snapshot, configuration, proposals={})
        self._carry_out(snapshot, decisions)
        return snapshot, decisions

    def begin_search(self, configuration: Configuration) -> None:
        """Searches for victims in the cluster as the scheduler sees it now; `end_search` tells what came of it."""
        snapshot = self.state.snapshot(self.now)
        self._searched = snapshot, decide(replace(snapshot, now=self.now), configuration)

    @property
    def is_searching(self) -> bool:
        """Whether a search was begun that hasn't ended."""
        return self._searched is not None

    def end_search(self, configuration: Configuration) -> list[tuple[Snapshot, Decisions]]:
        """Carries out what the search found, as far as it is still right: as it is, or after a check."""
        assert self._searched is not None, "no search was begun"
        (searched, decisions), self._searched = self._searched, None
        newest = replace(self.state.snapshot(self.now), now=self.now)
        parts = split(decisions, searched, newest)
        self._carry_out(newest, parts.current)
        done = [(newest, parts.current)]
        if parts.outdated:
            newest = self.state.snapshot(self.now)
            checked = decide(replace(newest, now=self.now), configuration, proposals=by_action(parts.outdated))
            parts = split(checked, newest, newest)
            assert not parts.outdated, "what was just checked is current"
            self._carry_out(newest, parts.current)
            done.append((newest, parts.current))
        return done

    def _carry_out(self, snapshot: Snapshot, decisions: Decisions) -> None:
        for dead in snapshot.dead_bind_requests:
            self.state.own.back_off(ObjectKey(dead.metadata.namespace, dead.spec.podName), _owner(dead), self.now)
            self.delete(dead)
        for bind in decisions.lasting_binds:
            request = bind_request_for(bind)
            self.state.own.assume_bind_request(request)
            self.later(self.delays.write, _Write(partial(self._request, request, bind)))
        self._decide_evictions(decisions.lasting_evictions)
        self.state.remember(decisions, self.now)
        if decisions.lasting_evictions or self.now - self._saved_at >= SAVE_SECONDS:
            self.memory, self._saved_at = encode(self.state.memory(self.now)), self.now
        bound = {bind.job.key for bind in decisions.lasting_binds}
        for job in decisions.started:
            if job.key in bound:
                self._note(job.group, LAST_START_ANNOTATION, format_time(self.now))
        for stale in decisions.stale:
            if stale.job.history.stale_since is None:
                self._note(stale.job.group, STALE_SINCE_ANNOTATION, format_time(stale.since))
        for job in decisions.recovered:
            self._note(job.group, STALE_SINCE_ANNOTATION, None)

    def restart(self, *, remembers: bool = True) -> None:
        """The scheduler dies and another one takes its place, which has seen all objects before its first cycle. What
        the dead one was about to write is written at once or never; of several evictions, some."""
        self._dying = True
        for _, _, act in sorted(self._agenda, key=lambda entry: entry[:2]):
            if isinstance(act, _Write) and self.random.random() < 0.5:
                act()
        self._dying = False
        self._agenda = [entry for entry in self._agenda if not isinstance(entry[2], _Heard | _Write)]
        heapq.heapify(self._agenda)
        self.state, self._decided, self._look_again_at = ClusterState(), None, math.inf
        self._searched = None
        for kind in sorted(self.objects, key=lambda kind: kind.__name__):
            for obj in self.objects[kind].values():
                self.state.put(obj)
        if remembers and self.memory:
            self._decide_evictions(self.state.restore(decode(self.memory), self.now))

    def _decide_evictions(self, evictions: Iterable[Eviction]) -> None:
        batches: dict[object, list[Eviction]] = {}
        for each in evictions:
            pod = each.task.pod
            self.state.own.assume_eviction(each.task.key, pod.metadata.uid, self.now, each.action, each.text)
            for_whom = each.preemptor.key if each.preemptor is not None else each.job.key
            batches.setdefault((each.action, for_whom), []).append(each)
        for batch in batches.values():
            self.later(self.delays.write, _Write(partial(self._evict, batch)))

    def _note(self, group: PodGroup, annotation: str, value: str | None) -> None:
        def write() -> None:
            found = self.objects[PodGroup].get(group.key)
            if found is not None:
                annotations = {**found.metadata.annotations, annotation: value}
                kept = {name: text for name, text in annotations.items() if text is not None}
                self.write(_with_meta(found, annotations=kept))

        self.state.own.write_note(group, annotation, value)
        self.later(self.delays.write, _Write(write))

    def _request(self, request: BindRequest, bind: Bind) -> None:
        uid = f"request-{next(self._order)}"
        made = _with_meta(request, uid=uid, resourceVersion=str(next(self._order)))
        self.write(made)
        fails = self.random.random() < self.delays.bind_failure_rate
        self.later(self.delays.write, lambda: self._bind(made, bind, fails=fails))

    def _bind(self, request: BindRequest, bind: Bind, *, fails: bool) -> None:
        pod = self._same(bind.task.pod)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return
        if fails:
            self.failed_binds.add(bind.job.key)
            status = msgspec.structs.replace(request.status, phase="Failed")
            version = str(next(self._order))
            self.write(msgspec.structs.replace(_with_meta(request, resourceVersion=version), status=status))
            return
        self.write(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=bind.node)))
        self.later(self.delays.start, lambda: self._run(pod))

    def _run(self, pod: Pod) -> None:
        found = self._same(pod)
        if found is not None and found.metadata.deletionTimestamp is None and found.status.phase == "Pending":
            ready = (PodCondition(type="Ready", status="True"),)
            status = msgspec.structs.replace(found.status, phase="Running", conditions=ready)
            self.write(msgspec.structs.replace(found, status=status))

    def _evict(self, batch: list[Eviction]) -> None:
        """All of them or none, as far as budgets can be asked beforehand, and nobody dies in between."""
        own = self.state.own
        batch = [each for each in batch if not self._dying or self.random.random() < 0.5]
        budgets = Counter(key for each in batch if (key := self._budget_to_ask(each.task.pod)) is not None)
        allowed = {key: self.objects[PodDisruptionBudget][key].status.disruptionsAllowed for key in budgets}
        short = {key for key, wanted in budgets.items() if wanted > allowed[key]}
        for each in batch:
            pod = each.task.pod
            budget = self._budget_to_ask(pod)
            if budget in short:
                self.refused.add(pod.key)
                own.refuse_eviction(pod.key, pod.metadata.uid, self.now, f"PodDisruptionBudget {budget}")
            elif short:
                own.withdraw_eviction(pod.key)
            else:
                self._note(each.job.group, LAST_EVICTION_ANNOTATION, format_time(self.now))
                self.end(pod, comes_back=True)

    def end(self, pod: Pod, *, comes_back: bool) -> None:
        """Deletes a pod with grace; others take its place if its owner makes new ones."""
        found = self._same(pod)
        if found is None or found.metadata.deletionTimestamp is not None:
            return
        grace = self.random.uniform(0, self.delays.end)
        going = _with_meta(found, deletionTimestamp=format_time(self.now + grace))
        self.write(going)
        group = self._group_of(pod)

        def gone() -> None:
            self.delete(going)
            request = self.objects.get(BindRequest, {}).get(pod.key)
            if request is not None:
                self.delete(request)
            if comes_back and group in self.templates:
                self.later(self.delays.replace, lambda: self._replace(group))

        heapq.heappush(self._agenda, (self.now + grace, next(self._order), gone))

    def _replace(self, group: ObjectKey) -> None:
        if group in self.objects[PodGroup]:
            self.add_pod(group)

    # ── disruption budgets ──

    def _budget_to_ask(self, pod: Pod) -> ObjectKey | None:
        found = self._same(pod)
        if found is None or found.status.phase != "Running" or found.metadata.deletionTimestamp is not None:
            return None
        budgets: dict[ObjectKey, PodDisruptionBudget] = self.objects.get(PodDisruptionBudget, {})
        return next((key for key, budget in budgets.items() if _guards(budget, found)), None)

    def _count_budgets(self) -> None:
        for budget in list(self.objects.get(PodDisruptionBudget, {}).values()):
            pods = [pod for pod in self.pods() if _guards(budget, pod)]
            healthy = sum(pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None for pod in pods)
            allowed = max(0, healthy - int(budget.spec.minAvailable or 0))
            status = PodDisruptionBudgetStatus(
                disruptionsAllowed=allowed, currentHealthy=healthy, desiredHealthy=int(budget.spec.minAvailable or 0)
            )
            if status != budget.status:
                self.write(msgspec.structs.replace(budget, status=status))

    def _same(self, pod: Pod) -> Pod | None:
        found: Pod | None = self.objects.get(Pod, {}).get(pod.key)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def _group_of(self, pod: Pod) -> ObjectKey:
        return ObjectKey(pod.metadata.namespace, pod.metadata.annotations.get("pod-group-name", ""))


def _guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return label_selector(budget.spec.selector).matches(pod.metadata.labels)


def _with_meta(obj: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **changes))


def _owner(request: BindRequest) -> str:
    return next((owner.uid for owner in request.metadata.ownerReferences if owner.kind == "Pod"), "")
