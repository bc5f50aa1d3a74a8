"""Extension points of a session: what plugins have registered, one list each, and how the answers of a list combine.

Plugins fill the lists while the session opens, in the order of the configuration; then the lists are frozen. Floats are
summed in the order of registration, because exact equality of scores decides ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

from bosket.scheduler.framework.eviction_extension import (
    ReclaimRight,
    ScenarioGenerator,
    ScenarioValidator,
    VictimFilter,
)
from bosket.scheduler.framework.extension import (
    BindDetail,
    CapacityCheck,
    DeviceChoice,
    FreeNow,
    GpuScorer,
    JobKey,
    NodeFilter,
    NodeScorer,
    NodeSubsetChoice,
    PlacementListener,
    PlacementPlan,
    QueueOrder,
    Reserver,
    SubGroupKey,
    TaskCheck,
    TaskKey,
)

F = TypeVar("F")


class FrozenExtensionPoint(RuntimeError):
    """A plugin registered with a session that is already open."""


class _Point(list[F]):
    """A list, because most points are gone through for every task that is placed."""

    is_frozen = False

    def add(self, entry: F) -> None:
        """Registers an entry. Raises once the session is open: earlier decisions were made without the entry."""
        if self.is_frozen:
            raise FrozenExtensionPoint(f"{entry!r} was added after the session had opened; add it in open(session)")
        self.append(entry)


class AllOf(_Point[F]):
    """All entries must agree; the first refusal gives the reason."""


class SumOf(_Point[F]):
    """The answers are added up, in order of registration."""


class KeyOf(_Point[F]):
    """The answers form one sort key; the first entry is the most significant."""


class FirstOpinion(_Point[F]):
    """The first answer that is an opinion (non-zero, not None) decides."""


class EachOf(_Point[F]):
    """All entries are called; there is no answer."""


class InTurn(_Point[F]):
    """Entries are called one after the other until one succeeds."""


@dataclass(frozen=True, slots=True)
class ExtensionPoints:
    """All extension points of a session."""

    job_order: KeyOf[JobKey] = field(default_factory=KeyOf)
    task_order: KeyOf[TaskKey] = field(default_factory=KeyOf)
    subgroup_order: KeyOf[SubGroupKey] = field(default_factory=KeyOf)
    queue_order: FirstOpinion[QueueOrder] = field(default_factory=FirstOpinion)
    task_checks: FirstOpinion[TaskCheck] = field(default_factory=FirstOpinion)
    capacity_checks: FirstOpinion[CapacityCheck] = field(default_factory=FirstOpinion)
    node_filters: AllOf[NodeFilter] = field(default_factory=AllOf)
    node_scores: SumOf[NodeScorer] = field(default_factory=SumOf)
    node_subsets: FirstOpinion[NodeSubsetChoice] = field(default_factory=FirstOpinion)
    placement_plans: InTurn[PlacementPlan] = field(default_factory=InTurn)
    gpu_scores: SumOf[GpuScorer] = field(default_factory=SumOf)
    device_choices: FirstOpinion[DeviceChoice] = field(default_factory=FirstOpinion)
    free_now: AllOf[FreeNow] = field(default_factory=AllOf)
    placement_listeners: EachOf[PlacementListener] = field(default_factory=EachOf)
    bind_details: EachOf[BindDetail] = field(default_factory=EachOf)
    reclaim_rights: AllOf[ReclaimRight] = field(default_factory=AllOf)
    reclaim_filters: AllOf[VictimFilter] = field(default_factory=AllOf)
    preempt_filters: AllOf[VictimFilter] = field(default_factory=AllOf)
    reclaim_validators: AllOf[ScenarioValidator] = field(default_factory=AllOf)
    preempt_validators: AllOf[ScenarioValidator] = field(default_factory=AllOf)
    reservers: FirstOpinion[Reserver] = field(default_factory=FirstOpinion)
    scenario_generators: InTurn[ScenarioGenerator] = field(default_factory=InTurn)

    def freeze(self) -> None:
        """Called after the last plugin has opened."""
        for each in fields(self):
            getattr(self, each.name).is_frozen = True


class Registrar:
    """The names by which plugins of other packages register: `session.node_scores.add(…)` and the like."""

    extensions: ExtensionPoints

    @property
    def node_scores(self) -> SumOf[NodeScorer]:
        return self.extensions.node_scores

    @property
    def node_filters(self) -> AllOf[NodeFilter]:
        return self.extensions.node_filters

    @property
    def job_order(self) -> KeyOf[JobKey]:
        return self.extensions.job_order

    @property
    def task_order(self) -> KeyOf[TaskKey]:
        return self.extensions.task_order

    @property
    def subgroup_order(self) -> KeyOf[SubGroupKey]:
        return self.extensions.subgroup_order

    @property
    def queue_order(self) -> FirstOpinion[QueueOrder]:
        return self.extensions.queue_order

    @property
    def reclaim_filters(self) -> AllOf[VictimFilter]:
        return self.extensions.reclaim_filters

    @property
    def preempt_filters(self) -> AllOf[VictimFilter]:
        return self.extensions.preempt_filters

    @property
    def reclaim_validators(self) -> AllOf[ScenarioValidator]:
        return self.extensions.reclaim_validators

    @property
    def preempt_validators(self) -> AllOf[ScenarioValidator]:
        return self.extensions.preempt_validators

    @property
    def placement_listeners(self) -> EachOf[PlacementListener]:
        return self.extensions.placement_listeners

    @property
    def task_checks(self) -> FirstOpinion[TaskCheck]:
        return self.extensions.task_checks

    @property
    def capacity_checks(self) -> FirstOpinion[CapacityCheck]:
        return self.extensions.capacity_checks
