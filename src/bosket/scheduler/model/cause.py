"""Causes of evictions: values with amounts, and the sentences rendered from them.

Actions put a cause on every `Eviction`; events and conditions render it. Each text begins with KAI's own sentences,
which users and tools know, and ends with the rule that applied (`rule`).
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import QueueAmounts

#: The line about lost run time that follows a cause's text begins so.
LOST: Final = "Run time lost: "


class QueueBalance(msgspec.Struct, frozen=True):
    """A queue's account at the time of the decision, before the eviction."""

    queue: str
    allocated: QueueAmounts
    quota: QueueAmounts
    fair_share: QueueAmounts
    priority: int

    def __str__(self) -> str:
        return (
            f"{self.queue} uses <{_amounts(self.allocated)}> with a quota of <{_amounts(self.quota)}>, "
            f"fair-share of <{_amounts(self.fair_share)}> and queue priority of <{self.priority}>."
        )


class Reclaimed(msgspec.Struct, frozen=True):
    """The eviction lets another queue reach its fair share. The queues are the siblings that were compared."""

    victim: QueueBalance
    reclaimer: QueueBalance
    within_quota: bool  #: whether the reclaimer stays within its quota, not only within its fair share

    @property
    def rule(self) -> str:
        mine, theirs = self.reclaimer.queue, self.victim.queue
        if self.within_quota:
            return f"{mine} stays within its quota and takes it back from {theirs}, which is over its own"
        return f"{mine} stays within its fair share and takes it from {theirs}, which is over its own"

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        return f"Pod {pod} was preempted by workload {by}.\n{self.victim}\n{self.reclaimer}\nReclaim: {self.rule}"


class Preempted(msgspec.Struct, frozen=True):
    """The eviction lets a job of higher priority in the same queue start."""

    queue: str
    priority: int  #: of the one that takes it
    victim_priority: int

    @property
    def rule(self) -> str:
        return f"priority {self.priority} goes before {self.victim_priority} in queue {self.queue}"

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        return f"Pod {pod} was preempted by higher priority workload {by}\nPreempt: {self.rule}"


class Consolidated(msgspec.Struct, frozen=True):
    """The task moves so that another job fits; there is room for it on another node."""

    to_node: str

    @property
    def rule(self) -> str:
        return f"room is made when pods move closer together: there is some on node {self.to_node}"

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        return (
            f"Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure\n"
            f"Consolidation: workload {by} fits when the pod moves to node {self.to_node}"
        )


class GangBroken(msgspec.Struct, frozen=True):
    """The gang is below its minimum for longer than its grace period."""

    required: int
    subgroup: str  #: empty when the job has no sub-groups
    grace_seconds: float

    @property
    def rule(self) -> str:
        return f"it has been below its minimum for longer than {self.grace_seconds:g} s"

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        del by
        where = f" in sub-group {self.subgroup}" if self.subgroup else ""
        return (
            f"Workload doesn't meet the minimum required number of pods ({self.required}){where}, "
            f"evicting remaining pod: {pod}\n"
            f"Stale gang: {self.rule}"
        )


class Overdue(msgspec.Struct, frozen=True):
    """The job passed a large gang, as preemptible ones may, and the gang is to start."""

    start: float  #: epoch seconds, from which on the node was held for the gang

    @property
    def rule(self) -> str:
        return f"the node is held for a gang from {format_time(self.start)}, and the job has not ended by then"

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        return f"Pod {pod} was preempted by workload {by}\nBackfill: {self.rule}"


class Recalled(msgspec.Struct, frozen=True):
    """An eviction that an earlier process decided and this one carries out; only the text of its cause is left."""

    sentence: str

    @property
    def rule(self) -> str:
        lines = [line for line in self.sentence.splitlines() if not line.startswith(LOST)]
        return lines[-1].partition(": ")[2] if lines else ""

    def text(self, pod: ObjectKey, by: ObjectKey | None) -> str:
        del pod, by
        return self.sentence


Cause = Reclaimed | Preempted | Consolidated | GangBroken | Overdue | Recalled


def _amounts(shares: QueueAmounts) -> str:
    gpus, millicores, memory = shares
    return f"GPU: {_amount(gpus, 1)}, CPU: {_amount(millicores, 1e3)} (cores), memory: {_amount(memory, 1e9)} (GB)"


def _amount(value: float, unit: float) -> str:
    if value == UNLIMITED or math.isinf(value):
        return "Unlimited"
    return f"{value / unit:.3f}".rstrip("0").rstrip(".")
