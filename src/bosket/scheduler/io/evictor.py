"""Evictor: evicts pods through the eviction API, which respects disruption budgets, or by plain deletion.

The evictions for one job are one batch. Its pods count as terminating from the moment of the decision. Pods that a
budget guards are evicted by dry run first: when one is refused, no pod of the batch is evicted in vain. If a budget
refuses one later all the same, because another client was faster, the pods that are not evicted yet stay. A refused pod
is left alone for a while, and the next cycle searches for other victims.

A pod is evicted by uid, so a successor of the same name is safe. Errors that may pass are retried with back-off, a
limited number of times.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from bosket.api.core import Pod, PodCondition
from bosket.api.eviction_note import EvictionNote
from bosket.api.keys import (
    EVICTED_PODS_ANNOTATION,
    EVICTION_NOTE_ANNOTATION,
    EVICTOR_ACTION_ANNOTATION,
    EVICTOR_POD_GROUP_ANNOTATION,
    EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION,
    LAST_EVICTION_ANNOTATION,
)
from bosket.api.time import format_time
from bosket.kube.client import PatchType
from bosket.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerError, TooManyRequests, TransportError
from bosket.runtime.controller import Controller
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.scheduler.io.note_writer import NoteWriter, stamp
from bosket.scheduler.model.decisions import Eviction
from bosket.scheduler.state.own_decisions import OwnDecisions

_log = logging.getLogger(__name__)

EVICT = "Evict"
#: Concurrent batches, and concurrent requests of all batches together.
WORKERS, REQUESTS = 16, 32
#: Attempts at a batch when the server fails.
ATTEMPTS = 8
DISRUPTION_TARGET = "DisruptionTarget"
#: The condition's reasons: Kubernetes' own for preempted pods, and one like it for pods that are evicted for no
#: preemptor.
PREEMPTED, EVICTED = "PreemptionByScheduler", "EvictionByScheduler"


@dataclass(slots=True)
class _Batch:
    """The evictions for one job."""

    left: list[Eviction]
    size: int
    is_permitted: bool = False  #: whether the dry runs succeeded
    #: evicted pods whose events and annotations are not written yet, with the time for the pod group's annotation
    gone: list[tuple[Eviction, str]] = field(default_factory=list)


class Evictor:
    """Carries evictions out in the background; `evict` never waits."""

    def __init__(
        self,
        env: Environment,
        own: OwnDecisions,
        *,
        events: EventRecorder,
        notes: NoteWriter,
        changed: Callable[[], None],
        evicted: Callable[[Eviction], None],
        save: Callable[[], Awaitable[None]],
        by_deletion: bool,
    ) -> None:
        """`changed` is called when the state changed otherwise than by a watch, `evicted` for every pod that goes, and
        `save` before anybody goes: it returns when the next process could read what was decided."""
        self._client, self._clock, self._events = env.client, env.clock, events
        self._own, self._notes, self._changed, self._evicted = own, notes, changed, evicted
        self._save, self._by_deletion = save, by_deletion
        self._batches: dict[int, _Batch] = {}
        self._numbers = count()
        self._slots = asyncio.Semaphore(REQUESTS)
        self._controller: Controller[int] = Controller(
            "evictions", self._handle, workers=WORKERS, clock=env.clock, metrics=env.metrics
        )

    async def run(self) -> None:
        await self._controller.run()

    def evict(self, evictions: Iterable[Eviction]) -> None:
        """Evicts these pods in the background, as one batch."""
        now = self._clock.now()
        batches: dict[object, list[Eviction]] = {}
        for each in evictions:
            self._own.assume_eviction(each.task.key, each.task.pod.metadata.uid, now, each.action, each.text)
            for_whom = each.preemptor.key if each.preemptor is not None else None
            batches.setdefault((each.action, for_whom or each.job.key), []).append(each)
        for members in batches.values():
            number = next(self._numbers)
            self._batches[number] = _Batch(members, len(members))
            self._controller.queue.add(number)

    def start_anew(self) -> None:
        """Drops what was not evicted before a pause: another leader may have decided meanwhile."""
        for batch in self._batches.values():
            for each in batch.left:
                self._own.withdraw_eviction(each.task.key)
        self._batches.clear()

    async def _handle(self, number: int) -> None:
        batch = self._batches.get(number)
        if batch is None:
            return
        try:
            await self._save()  # stored first: after a crash the next process knows what was being evicted
            try:
                await self._carry_out(batch)
            finally:
                # Reports come last: with thousands of victims the API server is the limit, and the preemptor waits for
                # the pods.
                await self._report_all(batch)
        except (ServerError, TooManyRequests, TransportError) as error:
            if self._controller.queue.failures(number) + 1 < ATTEMPTS:
                raise  # may pass: the controller retries with back-off
            for each in list(batch.left):
                self._refuse(each, f"the API server: {error}")
        self._give_up(batch)
        del self._batches[number]

    async def _carry_out(self, batch: _Batch) -> None:
        """Evicts the batch. On return, what is left of it isn't evicted any more."""
        guarded = [each for each in batch.left if self._own.guard_of(each.task.key)]
        if not self._by_deletion and guarded and batch.size > 1 and not batch.is_permitted:
            if not all([await self._try(batch, each, dry_run=True) for each in guarded]):
                return
            batch.is_permitted = True
        # one after the other, guarded pods first: a refusal then comes before any other pod is evicted
        for each in guarded:
            if not await self._try(batch, each):
                return
        outcomes = await asyncio.gather(*(self._try(batch, each) for each in batch.left), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _try(self, batch: _Batch, eviction: Eviction, *, dry_run: bool = False) -> bool:
        """Evicts one pod; True if it goes or is gone already."""
        if self._by_deletion:
            await self._mark(eviction)
        try:
            async with self._slots:
                await self._ask(eviction.task.pod, dry_run=dry_run)
        except (NotFound, Conflict):  # gone already; a successor of the same name has another uid
            if not dry_run:
                batch.left.remove(eviction)
            return True
        except TooManyRequests as error:
            if not _is_by_budget(error):
                raise
            budget = self._own.guard_of(eviction.task.key)
            self._refuse(eviction, f"PodDisruptionBudget {budget}" if budget else str(error))
            return False
        except ServerError:
            raise
        except ApiError as error:
            self._refuse(eviction, f"the API server: {error}")
            return False
        if not dry_run:
            batch.left.remove(eviction)
            at = stamp(self._clock.now())
            batch.gone.append((eviction, at))
            self._notes.keep(eviction.job.group, LAST_EVICTION_ANNOTATION, at)
            self._evicted(eviction)
        return True

    async def _ask(self, pod: Pod, *, dry_run: bool) -> None:
        if self._by_deletion:
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid or None)
        else:
            await self._client.evict(pod, dry_run=dry_run)

    def _refuse(self, eviction: Eviction, by: str) -> None:
        """The eviction is refused: the pod counts as running again, and its back-off makes searches avoid it."""
        pod = eviction.task.pod
        _log.warning("the eviction of pod %s was refused by %s", pod.key, by)
        self._own.refuse_eviction(pod.key, pod.metadata.uid, self._clock.now(), by)

    def _give_up(self, batch: _Batch) -> None:
        """Counts the pods that were not evicted as running again."""
        for each in batch.left:
            self._own.withdraw_eviction(each.task.key)
        if batch.left:
            self._changed()

    # Reports

    async def _report_all(self, batch: _Batch) -> None:
        gone, batch.gone = batch.gone, []
        pods = Counter(eviction.job.key for eviction, _ in gone)
        for eviction, at in gone:
            self._report(eviction, batch.size)
            # Goes out together with the next one: one write for both.
            note = _note(eviction, at, pods[eviction.job.key])
            self._notes.keep(eviction.job.group, EVICTION_NOTE_ANNOTATION, note.encoded())
            self._notes.write(eviction.job.group, LAST_EVICTION_ANNOTATION, at)
        if not self._by_deletion:
            # Written after the eviction: the eviction API writes its own condition, and a refused eviction must leave
            # none.
            await asyncio.gather(*(self._mark(eviction) for eviction, _ in gone))

    def _report(self, eviction: Eviction, batch_size: int) -> None:
        group, preemptor = eviction.job.group, eviction.preemptor
        annotations = {EVICTED_PODS_ANNOTATION: str(batch_size), EVICTOR_ACTION_ANNOTATION: eviction.action}
        if preemptor is not None:
            annotations[EVICTOR_POD_GROUP_ANNOTATION] = preemptor.key.name
            annotations[EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION] = preemptor.key.namespace
        self._events.event(eviction.task.pod, "Normal", EVICT, eviction.text, annotations)
        self._events.event(group, "Normal", EVICT, eviction.text, annotations)

    async def _mark(self, eviction: Eviction) -> None:
        """Sets the condition DisruptionTarget: owners may count such a pod differently from a failed one."""
        pod = eviction.task.pod
        condition = PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED if eviction.preemptor is not None else EVICTED,
            message=eviction.text,
            lastTransitionTime=format_time(self._clock.now()),
        )
        try:
            async with self._slots:
                await self._client.patch(
                    Pod, pod.metadata.name,
                    {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
                    namespace=pod.metadata.namespace, type=PatchType.STRATEGIC, subresource="status",
                )  # fmt: skip
        except KubeError as error:
            _log.debug("pod %s doesn't get the condition %s: %s", pod.key, DISRUPTION_TARGET, error)


def _note(eviction: Eviction, at: str, pods: int) -> EvictionNote:
    return EvictionNote(
        at=at,
        action=eviction.action,
        why=eviction.cause.rule if eviction.cause is not None else "",
        by=str(eviction.preemptor.key) if eviction.preemptor is not None else "",
        pods=pods,
        lostGpuHours=round(eviction.job_lost_gpu_hours, 2),
    )


def _is_by_budget(error: TooManyRequests) -> bool:
    details = error.status.details
    return details is not None and any(cause.reason == "DisruptionBudget" for cause in details.causes)
