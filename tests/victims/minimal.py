"""Whether a cycle's evictions are minimal: each victim is protected in turn, and the cycle decided anew.

Only the first preemptor of a cycle is looked at, because what later ones find depends on it. Protecting one of its
victims must leave it without room, or cost as many evictions; or hit jobs with a better right to stay, which are of
another queue or priority than the protected one, or lose as much work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import structs

from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions, Eviction, Pipeline
from bosket.scheduler.model.snapshot import Snapshot
from bosket.testing.cluster import snapshot_of

#: Decides with one job protected, or none.
Cycle = Callable[[ObjectKey | None], tuple[Snapshot, Decisions]]


class Minimality(Enum):
    """What protecting the victims of a cycle's first preemptor says of them."""

    NO_VICTIMS = "nobody is evicted for a job"
    MINIMAL = "without any one of them as many pods go, or the job waits"
    BY_RIGHT = "fewer pods with a better right to stay could go, or as much work be lost with fewer pods"
    NEEDLESS = "fewer pods without a better right could go"


def minimality(cycle: Cycle) -> Minimality:
    snapshot, decisions = cycle(None)
    first = next((each for each in decisions.evictions if each.preemptor is not None), None)
    if first is None:
        return Minimality.NO_VICTIMS
    mine = _of_first(decisions, first)
    result = Minimality.MINIMAL
    for victim in dict.fromkeys(each.job.key for each in mine):
        _, others = cycle(victim)
        other = next((each for each in others.evictions if each.preemptor is not None), None)
        if other is None or (other.action, _preemptor(other)) != (first.action, _preemptor(first)):
            continue
        theirs = _of_first(others, other)
        if len(theirs) >= len(mine) or _served(others, other) < _served(decisions, first):
            continue
        result = Minimality.BY_RIGHT
        if _is_free_choice(snapshot, victim, mine, theirs, moves=first.action == "consolidation"):
            return Minimality.NEEDLESS
    return result


def with_protected(objects: Iterable[KubeObject], configuration: Configuration) -> Cycle:
    """A cycle on these objects."""
    listed = list(objects)

    def cycle(protected: ObjectKey | None) -> tuple[Snapshot, Decisions]:
        snapshot = snapshot_of([_protected(each) if each.key == protected else each for each in listed])
        return snapshot, decide(snapshot, configuration)

    return cycle


def _protected(each: KubeObject) -> KubeObject:
    if not isinstance(each, PodGroup):
        return each
    return structs.replace(each, spec=structs.replace(each.spec, preemptibility="non-preemptible"))


def _preemptor(eviction: Eviction) -> ObjectKey:
    assert eviction.preemptor is not None
    return eviction.preemptor.key


def _of_first(decisions: Decisions, first: Eviction) -> list[Eviction]:
    """What is evicted for the same job by the same action: its first success."""
    found: list[Eviction] = []
    for each in decisions.evictions:
        if each.preemptor is None or (each.action, _preemptor(each)) != (first.action, _preemptor(first)):
            break
        found.append(each)
    return found


def _served(decisions: Decisions, first: Eviction) -> int:
    """How many pods of the preemptor have a place by that action."""
    return sum(
        isinstance(each, Pipeline) and each.action == first.action and each.job.key == _preemptor(first)
        for each in decisions.operations
    )


def _is_free_choice(
    snapshot: Snapshot, victim: ObjectKey, mine: list[Eviction], theirs: list[Eviction], *, moves: bool
) -> bool:
    """Whether the smaller set of victims has no better right to stay, and loses less work."""
    job, before = snapshot.jobs[victim], {each.job.key for each in mine}
    alike = all(
        moves or each.job.key in before or (each.job.queue, each.job.priority) == (job.queue, job.priority)
        for each in theirs
    )
    lost, others = ([each for each in them if not each.moves_to] for them in (mine, theirs))
    return alike and len(others) <= len(lost) and _work(theirs) < _work(mine)


def _work(evictions: Iterable[Eviction]) -> float:
    return sum(each.lost_gpu_hours for each in evictions)
