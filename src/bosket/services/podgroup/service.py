"""The pod group controller as a service: a reconciler on PodGroups.

Pods of a gang change within moments of each other, so a group is looked at a short while after the first change: one
write says what came of all of them. What stays as it was isn't written, and what is about to pass (a gang that waits,
or is starting) only if it lasts: a job that starts within seconds of its arrival is written once. While there are
lasting states to write, those that pass wait longer, so that a cluster that is being filled doesn't get a write for
each job twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Node, Pod
from bosket.api.device_claim import claim_name
from bosket.api.kai import PodGroup, PodGroupStatus
from bosket.api.object import ObjectKey
from bosket.api.resource_k8s import ResourceClaim
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment, Service
from bosket.services.podgroup.charges import Charges
from bosket.services.podgroup.status import Member, is_passing, status_of
from bosket.services.podgroup.usage import allocated, has_not_ended, is_allocated, requested

NAME: Final = "podgroup-controller"
_BY_GROUP: Final = "podgroup-controller/group"
_BY_PRIORITY_CLASS: Final = "podgroup-controller/priority-class"
#: How long the changes of a group's pods are gathered; on a busy cluster, where pods take longer to start, longer.
_GATHER_SECONDS: Final = 0.5
_BUSY_GATHER_SECONDS: Final = 1.5
#: How long a state that is about to pass must last to be written; on a busy cluster, and at most.
_PASSING_SECONDS: Final = 3.0
_LONGEST_PASSING_SECONDS: Final = 30.0
#: A cluster is busy for so long after a lasting state was written; longer than changes are gathered then, or it would
#: look idle between two writes.
_BUSY_SECONDS: Final = 2.0 * _BUSY_GATHER_SECONDS


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the pod group controller."""

    max_concurrent_reconciles: int = 10


def _priority_class_of(group: PodGroup) -> tuple[str, ...]:
    return (group.spec.priorityClassName,)


def service(env: Environment, options: Options | None = None) -> Service:
    """The pod group controller."""
    return PodGroupController(env, options or Options())


class PodGroupController:
    """Keeps the status of PodGroups until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options) -> None:
        self._client = env.client
        self._clock = env.clock
        self._groups = env.informers.of(PodGroup)
        self._groups.add_index(_BY_PRIORITY_CLASS, _priority_class_of)
        self._pods = env.informers.of(Pod)
        self._pods.add_index(_BY_GROUP, _group_of)
        self._asked, self._held = Charges(_claims_of, has_not_ended), Charges(_claims_of, is_allocated)
        self._nodes = env.informers.of(Node)
        self._claims = env.informers.of(ResourceClaim, optional=True)
        self._priority_classes = env.informers.of(PriorityClass)
        #: Since when a group differs from what it says of itself.
        self._unsaid_since: dict[ObjectKey, float] = {}
        self._busy_until = 0.0
        self._being_written: dict[ObjectKey, PodGroupStatus] = {}
        self._controller: Controller[ObjectKey] = Controller(
            NAME, self._reconcile, workers=options.max_concurrent_reconciles, clock=env.clock, metrics=env.metrics
        )
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._claim_changed)
        self._priority_classes.subscribe(self._priority_class_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        for informer in (self._groups, self._pods, self._nodes, self._claims, self._priority_classes):
            await informer.wait_synced()
        for group in self._groups.store.values():
            self._controller.queue.add(group.key)
        await self._controller.run()

    # --- what brings a group here

    def _group_changed(self, change: Change[PodGroup]) -> None:
        old, new = change
        if new is None:
            return
        # A status that was just written is as it should be, whether the watch shows it or the answer.
        known = self._being_written.get(new.key, old.status if old is not None else None)
        if old is None or old.spec != new.spec or known != new.status:
            self._soon(new.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        groups = {key for pod in change if pod is not None for key in _group_of(pod)}
        for charges in (self._asked, self._held):
            for pod in charges.update(change):
                groups |= self._groups_of(pod)
        for key in groups:
            self._soon(ObjectKey(*key.split("/", 1)))

    def _claim_changed(self, change: Change[ResourceClaim]) -> None:
        claim = change.new or change.old
        if claim is not None:
            pods = {charges.charged(str(claim.key)) for charges in (self._asked, self._held)}
            for key in {key for pod in pods for key in self._groups_of(pod)}:
                self._soon(ObjectKey(*key.split("/", 1)))

    def _groups_of(self, key: ObjectKey | None) -> set[str]:
        pod = self._pods.store.get(key) if key is not None else None
        return set(_group_of(pod)) if pod is not None else set()

    def _priority_class_changed(self, change: Change[PriorityClass]) -> None:
        old, new = change
        if old is not None and new is not None and (old.value, old.globalDefault) == (new.value, new.globalDefault):
            return
        known = new or old
        by_default = any(each is not None and each.globalDefault for each in change)
        groups = (
            self._groups.store.values()
            if by_default or known is None
            else self._groups.store.by_index(_BY_PRIORITY_CLASS, known.metadata.name)
        )
        for group in groups:
            self._soon(group.key)

    def _soon(self, key: ObjectKey) -> None:
        is_busy = self._clock.monotonic() < self._busy_until
        self._controller.queue.add_after(key, _BUSY_GATHER_SECONDS if is_busy else _GATHER_SECONDS)

    # --- what is done about it

    async def _reconcile(self, key: ObjectKey) -> float | None:
        group = self._groups.store.get(key)
        if group is None:
            self._unsaid_since.pop(key, None)
            return None
        members = [self._member(pod) for pod in self._pods.store.by_index(_BY_GROUP, str(key))]
        status = status_of(group, members, preemptible=self._is_preemptible(group), now=self._clock.now())
        if status == group.status:
            self._unsaid_since.pop(key, None)
            return None
        pause = self._pause(key, status)
        if pause > 0:
            return pause
        after = msgspec.structs.replace(group, status=status)
        self._being_written[key] = status
        try:
            self._groups.store.put(await self._client.modify(group, after, subresource="status"))
        except NotFound:
            return None  # gone meanwhile
        finally:
            del self._being_written[key]
        self._unsaid_since.pop(key, None)
        return None

    def _pause(self, key: ObjectKey, status: PodGroupStatus) -> float:
        """How long to wait, and see whether it stays so."""
        now = self._clock.monotonic()
        since = self._unsaid_since.setdefault(key, now)
        if not is_passing(status):
            self._busy_until = now + _BUSY_SECONDS
            return 0.0
        if now < since + _PASSING_SECONDS:
            return since + _PASSING_SECONDS - now
        if now < min(self._busy_until, since + _LONGEST_PASSING_SECONDS):
            return _PASSING_SECONDS
        return 0.0

    def _member(self, pod: Pod) -> Member:
        node = self._nodes.store.get(ObjectKey("", pod.spec.nodeName)) if pod.spec.nodeName else None
        asked, held = (list(self._claims_charged_to(pod, each)) for each in (self._asked, self._held))
        return Member(pod, requested(pod, asked), allocated(pod, held, node))

    def _claims_charged_to(self, pod: Pod, charges: Charges) -> Iterator[ResourceClaim]:
        """Claims of the pod. One that several pods use, of one group or of several, is charged to one of them, so that
        a device counts once in the queue."""
        for key in dict.fromkeys(_claims_of(pod)):
            claim = self._claims.store.get(ObjectKey(*key.split("/", 1)))
            if claim is not None and charges.charged(key) == pod.key:
                yield claim

    def _is_preemptible(self, group: PodGroup) -> bool:
        if group.spec.preemptibility:
            return group.spec.preemptibility == "preemptible"
        found = self._priority_classes.store.get(ObjectKey("", group.spec.priorityClassName))
        if found is None:
            found = next((each for each in self._priority_classes.store.values() if each.globalDefault), None)
        value = found.value if found is not None else keys.DEFAULT_WORK_PRIORITY
        return value < keys.NON_PREEMPTIBLE_PRIORITY


def _group_of(pod: Pod) -> Iterable[str]:
    name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
    return (str(ObjectKey(pod.metadata.namespace, name)),) if name else ()


def _claims_of(pod: Pod) -> Iterator[str]:
    for each in pod.spec.resourceClaims:
        name = claim_name(pod, each.name)
        if name:
            yield str(ObjectKey(pod.metadata.namespace, name))
