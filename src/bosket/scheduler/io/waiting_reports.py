"""Reports on jobs that wait: conditions of pod groups and pods, and events, in one sentence and in KAI's words.

A message begins with the sentence of `answers.sentence`, on a line of its own because `kubectl get events` shows the
first line alone; KAI's texts follow as KAI has them. What KAI says decides when a report is due. The sentence is made
when the message is written, so that a cycle pays nothing for it. A sentence that is no longer true, because others came
or went, is renewed on the pod group a while later, as `StatusWriter` does with texts that differ in numbers alone; on
the pods, and as an event, only when it is another reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from bosket.api.core import Pod, PodCondition
from bosket.api.kai import PodGroup, SchedulingCondition, UnschedulableExplanation
from bosket.api.object import ObjectKey
from bosket.api.quantity import integer_or_none
from bosket.api.time import format_time
from bosket.kube.client import PatchType
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.runtime.worker_thread import Slices
from bosket.scheduler.answers.answer import Answer
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.io.status_writer import DELAY_SECONDS, NUMBERS_PER_SECOND, PendingWrite, StatusWriter
from bosket.scheduler.model.decisions import Decisions, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import CONDITION_TYPE, NOT_READY, LeftOutOfCycles, NotReady, unknown_subgroup
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.jobs import lasting_conditions

_log = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
#: After a cycle that changed something, sentences are compared with what is written no sooner than that.
RENEWAL_SECONDS = 10.0
#: So many times longer than it takes to make all sentences is the pause between two renewals: with a thousand jobs that
#: are all different, on thousands of nodes, it takes half a second.
RENEWAL_REST = 100.0

#: Sentences that are written within so short a time share what they are made of. It is less than a report waits before
#: it is written, so that they know the job.
SHARED_SECONDS = 0.8 * DELAY_SECONDS

_Kind = tuple[str, str]  #: code and tier of a reason: what an answer is about, its numbers apart


class WaitingReports:
    """The last report on each job that waits, and how it is written."""

    def __init__(
        self, env: Environment, state: ClusterState, status: StatusWriter, *, events: EventRecorder, node_pool: str
    ) -> None:
        self._client, self._clock, self._state = env.client, env.clock, state
        self._status, self._events, self._node_pool = status, events, node_pool
        self._slices = Slices(env.clock)
        self._reported: dict[ObjectKey, Waiting] = {}
        self._kinds: dict[ObjectKey, _Kind] = {}  # of the sentences that were written last
        self._decided: tuple[Snapshot, Decisions] | None = None
        self._sentences: Sentences | None = None  # about what was decided when they were made
        self._made_at = 0.0
        self._renewal_cost = 0.0  # of the sentences of the last renewal, in seconds of CPU
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Renews sentences that are no longer true, some time after whatever made them so."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(max(RENEWAL_SECONDS, RENEWAL_REST * self._renewal_cost))
            self._changed.clear()
            try:
                await self._renew()
            except Exception:
                _log.exception("sentences about waiting jobs could not be updated")

    def start_anew(self) -> None:
        self._reported, self._kinds = {}, {}
        self._decided = self._sentences = None

    def decided(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Sentences are about this from now on."""
        self._decided = snapshot, decisions
        if self._reported:
            self._changed.set()

    def is_reported(self, waiting: Waiting) -> bool:
        """Whether the last report on the job said the same, in KAI's words, and was written or will be."""
        reported = self._reported.get(waiting.job.key)
        return reported is not None and reported.job is waiting.job and _content(reported) == _content(waiting)

    def keep_only(self, jobs: Collection[ObjectKey]) -> None:
        """Other jobs don't wait any longer."""
        self._reported = {key: reported for key, reported in self._reported.items() if key in jobs}
        self._kinds = {key: kind for key, kind in self._kinds.items() if key in jobs}

    def forget(self, job: Job) -> None:
        """Nothing is to be said about why the job waits."""
        self._reported.pop(job.key, None)
        self._status.forget(("PodGroup", job.key))

    def report(self, waiting: Waiting) -> None:
        """Reports why a job waits."""
        self._reported[waiting.job.key] = waiting
        self._changed.set()
        for task in waiting.job.orphan_tasks:
            self._report_on_pod(waiting, task)
        if not waiting.reasons:
            return
        if any(isinstance(reason, NotReady) for reason in waiting.reasons):
            self._send_group_event(waiting, NOT_READY)
            return
        for task in self._reported_pods(waiting):
            self._report_on_pod(waiting, task)
        if _has_condition(waiting):
            self._report_on_group(waiting)
        else:
            self._send_group_event(waiting, UNSCHEDULABLE)

    def settle(self, job: Job) -> None:
        """Takes the condition away of a job that doesn't wait."""
        self.forget(job)
        if not job.group.status.schedulingConditions:
            return

        async def write() -> None:
            await self._write_conditions(job.group, None)

        self._status.submit(("PodGroup", job.key), PendingWrite(("settled",), write))

    # Sentences

    def _answer(self, waiting: Waiting) -> Answer | None:
        """As things stand after the last cycle. A report goes out without its sentence rather than not at all."""
        if self._decided is None:
            return None
        now = self._clock.monotonic()
        if self._sentences is None or now - self._made_at > SHARED_SECONDS:
            self._sentences, self._made_at = Sentences(*self._decided), now
        try:
            return self._sentences.of(waiting)
        except Exception:
            _log.exception("pod group %s: no sentence for its reason", waiting.job.key)
            return None

    def _worded(self, waiting: Waiting, text: str) -> str:
        """The message with KAI's text in it, now that it is written."""
        answer = self._answer(waiting)
        if answer is None:
            return text
        self._kinds[waiting.job.key] = answer.reason.code, answer.reason.tier
        return f"{answer.sentence}\n{text}"

    async def _renew(self) -> None:
        """Writes sentences anew that are no longer true; one after the other, because many may change at once."""
        self._slices.begin()
        self._renewal_cost, renewed = 0.0, 0
        for key, waiting in list(self._reported.items()):
            await self._slices.pause()
            group = self._state.group(key)
            if self._reported.get(key) is not waiting or group is None or not _has_condition(waiting):
                continue
            conditions = group.status.schedulingConditions
            began = time.thread_time()
            answer = self._answer(waiting)
            self._renewal_cost += time.thread_time() - began
            if answer is None or not conditions or conditions[-1].message.startswith(f"{answer.sentence}\n"):
                continue
            if not _says(conditions[-1].message, waiting.text):
                continue  # the report itself is still to be written
            kind = answer.reason.code, answer.reason.tier
            is_other_reason = self._kinds.setdefault(key, kind) != kind
            if is_other_reason:
                for task in self._reported_pods(waiting):
                    self._write_on_pod(waiting, task, numbers_only=False)
            delay = DELAY_SECONDS + renewed / NUMBERS_PER_SECOND
            self._write_on_group(waiting, group, numbers_only=not is_other_reason, delay_seconds=delay)
            renewed += 1

    # Writes

    def _report_again(self, job: Job) -> Callable[[], object]:
        """For a write that was refused: the next cycle reports on the job again."""
        return lambda: self._reported.pop(job.key, None)

    def _reported_pods(self, waiting: Waiting) -> list[Task]:
        """Pods that are marked as unschedulable."""
        if waiting.job.group.spec.markUnschedulable is False:
            return []
        return [task for task in waiting.tasks or waiting.job.tasks if task.status == TaskStatus.PENDING]

    def _report_on_pod(self, waiting: Waiting, task: Task) -> None:
        text, is_lost = _about_pod(waiting, task), _is_lost(waiting, task)
        for each in task.pod.status.conditions:
            if each.type != "PodScheduled" or each.reason != UNSCHEDULABLE:
                continue
            if each.message == text if is_lost else _says(each.message, text):
                self._status.is_written(("Pod", task.key))
                return
        self._write_on_pod(waiting, task)

    def _write_on_pod(self, waiting: Waiting, task: Task, *, numbers_only: bool | None = None) -> None:
        """`numbers_only`: of a sentence that is renewed, whether its numbers alone differ."""
        latest = self._state.task(task.key) if numbers_only is not None else None
        pod, text = latest.pod if latest is not None else task.pod, _about_pod(waiting, task)

        async def write() -> None:
            message = text if _is_lost(waiting, task) else self._worded(waiting, text)
            condition = PodCondition(
                type="PodScheduled", status="False", reason=UNSCHEDULABLE, message=message,
                lastTransitionTime=format_time(self._clock.now()),
            )  # fmt: skip
            # The version keeps a patch that comes late off a pod that was bound, or replaced, in the meantime.
            seen = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resourceVersion}
            await self._client.patch(
                Pod, task.key.name, {"metadata": seen, "status": {"conditions": [condition]}},
                namespace=task.key.namespace, type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
            self._events.event(pod, "Warning", UNSCHEDULABLE, message)

        self._status.submit(
            ("Pod", task.key), PendingWrite((text,), write, self._report_again(waiting.job), numbers_only)
        )

    def _send_group_event(self, waiting: Waiting, reason: str) -> None:
        job, text = waiting.job, waiting.text

        async def write() -> None:
            self._events.event(job.group, "Normal", reason, self._worded(waiting, text))

        self._status.submit(("PodGroup", job.key), PendingWrite((text,), write, self._report_again(job)))

    def _report_on_group(self, waiting: Waiting) -> None:
        conditions = waiting.job.group.status.schedulingConditions
        if conditions and _says(conditions[-1].message, waiting.text):
            self._status.is_written(("PodGroup", waiting.job.key))
        else:
            self._write_on_group(waiting, waiting.job.group)

    def _write_on_group(
        self,
        waiting: Waiting,
        group: PodGroup,
        *,
        numbers_only: bool | None = None,
        delay_seconds: float = DELAY_SECONDS,
    ) -> None:
        """`numbers_only`: of a sentence that is renewed, whether its numbers alone differ; then there is no event."""
        conditions = group.status.schedulingConditions
        codes = [each for each in waiting.reasons if each.code]

        async def write() -> None:
            message = self._worded(waiting, waiting.text)
            condition = SchedulingCondition(
                type=CONDITION_TYPE,
                nodePool=self._node_pool,
                status="True",
                reason=UNSCHEDULABLE,
                message=message,
                reasons=tuple(UnschedulableExplanation(reason=each.code, message=str(each)) for each in codes),
                lastTransitionTime=format_time(self._clock.now()),
                transitionID=str(_last_transition(conditions) + 1),
            )
            await self._write_conditions(group, condition)
            if not numbers_only:
                self._events.event(group, "Normal", UNSCHEDULABLE, message)

        content = (*(each.code for each in waiting.reasons), waiting.text)
        pending = PendingWrite(content, write, self._report_again(waiting.job), numbers_only)
        self._status.submit(("PodGroup", waiting.job.key), pending, delay_seconds=delay_seconds)

    async def _write_conditions(self, group: PodGroup, own: SchedulingCondition | None) -> None:
        """Writes this scheduler's condition beside those of other node pools; None takes all away."""
        # The version keeps a patch that comes late off a group that says something else by now. What others wrote into
        # its status meanwhile is no reason to be refused.
        key, uid, latest = group.key, group.metadata.uid, self._state.group(group.key)
        if latest is not None and lasting_conditions(latest) == lasting_conditions(group):
            group = latest
        conditions = (
            []
            if own is None
            else [*(each for each in group.status.schedulingConditions if each.nodePool != self._node_pool), own]
        )
        seen = {"uid": uid, "resourceVersion": group.metadata.resourceVersion}
        patch = {"metadata": seen, "status": {"schedulingConditions": conditions or None}}
        await self._client.patch(PodGroup, key.name, patch, namespace=key.namespace, subresource="status")


def _content(waiting: Waiting) -> tuple[object, ...]:
    return waiting.reasons, waiting.tasks, waiting.active


def _has_condition(waiting: Waiting) -> bool:
    """Whether the pod group as a whole is called unschedulable."""
    if not waiting.reasons or any(isinstance(reason, NotReady) for reason in waiting.reasons):
        return False
    return not waiting.active or any(isinstance(reason, LeftOutOfCycles) for reason in waiting.reasons)


def _about_pod(waiting: Waiting, task: Task) -> str:
    """KAI's text about one pod of a job."""
    return unknown_subgroup(task.subgroup, waiting.job.key) if _is_lost(waiting, task) else waiting.text


def _is_lost(waiting: Waiting, task: Task) -> bool:
    """Whether the pod belongs to none of the job's sub-groups, which is all that is to be said about it."""
    return task in waiting.job.orphan_tasks and not waiting.job.problem


def _says(message: str, text: str) -> bool:
    """Whether a message is a sentence and KAI's text; what was written without a sentence is to be written anew."""
    return message.partition("\n")[2] == text


def _last_transition(conditions: tuple[SchedulingCondition, ...]) -> int:
    return max((integer_or_none(each.transitionID) or 0 for each in conditions), default=0)
