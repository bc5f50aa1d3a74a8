"""How a gang fares: its phase, its conditions, how many pods of it are where, and what they use. Pure.

Phases, of which KAI's newer versions have none:

    Pending     it hasn't its minimum of pods with a node
    Scheduled   it has, but not its minimum of pods that run
    Running     it has its minimum of running pods (pods that succeeded count as such)
    Succeeded   all its pods have ended, none of them in failure
    Failed      all its pods have ended, some in failure
    Evicted     it hasn't its minimum of pods with a node because the scheduler evicted it, and had it before
    Unknown     it has no pods, and wasn't evicted

The condition Evicted says which job preempted it last, why, and what was lost, until it has its minimum again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from bosket.api import keys
from bosket.api.condition import find_condition, turned_at
from bosket.api.core import Pod
from bosket.api.eviction_note import EvictionNote, eviction_note
from bosket.api.gang import has_minimum, minimum
from bosket.api.kai import PodGroup, PodGroupCondition, PodGroupResourcesStatus, PodGroupSpec, PodGroupStatus
from bosket.services.podgroup.usage import Amounts, total

SCHEDULED = "Scheduled"
RUNNING = "Running"
EVICTED = "Evicted"
#: Reasons of the condition Evicted, by action; and where it doesn't hold.
_BY_ACTION = {
    "reclaim": "Reclaimed", "preempt": "Preempted", "consolidation": "Consolidated", "stalegangeviction": "StaleGang",
}  # fmt: skip
_RESTARTED, _KEPT_MINIMUM = "Restarted", "MinimumKept"
#: A gang that falls below its minimum so soon after one of its pods was evicted does so because of that.
_EVICTION_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the gang with what it asks for and holds."""

    pod: Pod
    requested: Amounts
    allocated: Amounts

    @property
    def subgroup(self) -> str:
        return self.pod.metadata.labels.get(keys.SUBGROUP_LABEL, "")

    @property
    def phase(self) -> str:
        return self.pod.status.phase or "Pending"


def status_of(group: PodGroup, members: Sequence[Member], *, preemptible: bool, now: float) -> PodGroupStatus:
    """The whole status, with what others wrote into it."""
    phases = Counter(each.phase for each in members)
    with_node = [each for each in members if each.phase != "Failed" and each.pod.spec.nodeName]
    in_effect = [each for each in members if each.phase in ("Running", "Succeeded")]
    is_scheduled, is_running = _has_minimum(group.spec, with_node), _has_minimum(group.spec, in_effect)
    held = total(each.allocated for each in members)
    evicted = _evicted(group, members, now)
    is_evicted = evicted is not None and evicted.status == "True"
    return msgspec.structs.replace(
        group.status,
        phase=EVICTED if is_evicted else _phase(phases, len(members), is_scheduled=is_scheduled, is_running=is_running),
        pending=phases["Pending"],
        running=phases["Running"],
        succeeded=phases["Succeeded"],
        failed=phases["Failed"],
        conditions=(
            _condition(group, SCHEDULED, is_scheduled, _count(group.spec, with_node, members, "have a node"), now),
            _condition(
                group, RUNNING, is_running, _count(group.spec, in_effect, members, "run or have succeeded"), now
            ),
            *((evicted,) if evicted is not None else ()),
            *(each for each in group.status.conditions if each.type not in (SCHEDULED, RUNNING, EVICTED)),
        ),
        resourcesStatus=PodGroupResourcesStatus(
            requested=total(each.requested for each in members),
            allocated=held,
            allocatedNonPreemptible={} if preemptible else held,
        ),
    )


def is_passing(status: PodGroupStatus) -> bool:
    """Whether the next change is expected soon: some of its pods, or all, are waiting or starting."""
    return status.pending > 0 or status.phase == "Unknown"


def _evicted(group: PodGroup, members: Sequence[Member], now: float) -> PodGroupCondition | None:
    """The condition Evicted; None for a gang that never was."""
    before = find_condition(group.status.conditions, EVICTED)
    note = eviction_note(group.metadata.annotations.get(keys.EVICTION_NOTE_ANNOTATION, ""))
    if note is None:
        return before
    stays = [
        each
        for each in members
        if each.phase != "Failed" and each.pod.spec.nodeName and each.pod.metadata.deletionTimestamp is None
    ]
    if members and (_has_minimum(group.spec, stays) or all(each.phase in ("Succeeded", "Failed") for each in members)):
        if before is None or (before.status == "False" and before.message != _restarted(note)):
            reason, message = _KEPT_MINIMUM, note.sentence
        else:
            reason, message = _RESTARTED, _restarted(note)
        return _turned(before, "False", reason, message, now)
    if before is not None and before.message == _restarted(note):
        return before  # it had its minimum again: what it lacks now isn't for this eviction
    is_recent = now - note.seconds < _EVICTION_SECONDS
    if not is_recent and before is not None and before.status == "False" and before.message == note.sentence:
        return before  # it kept its minimum then: that its pods are gone now isn't for this eviction
    if not members or is_recent or (before is not None and before.status == "True"):
        return _turned(before, "True", _BY_ACTION.get(note.action, EVICTED), note.sentence, now)
    return before


def _restarted(note: EvictionNote) -> str:
    return f"has its minimum of pods again; before: {note.sentence}"


def _turned(before: PodGroupCondition | None, status: str, reason: str, message: str, now: float) -> PodGroupCondition:
    """The condition with the time since when it has this status."""
    return PodGroupCondition(
        type=EVICTED,
        status=status,
        lastTransitionTime=turned_at(before, status, now),
        reason=reason,
        message=message,
        transitionID=before.transitionID if before is not None else "",
    )


def _has_minimum(spec: PodGroupSpec, members: Iterable[Member]) -> bool:
    return has_minimum(spec, Counter(each.subgroup for each in members))


def _phase(phases: Counter[str], members: int, *, is_scheduled: bool, is_running: bool) -> str:
    if members == 0:
        return "Unknown"
    if phases["Succeeded"] + phases["Failed"] == members:
        return "Failed" if phases["Failed"] else "Succeeded"
    if is_running:
        return "Running"
    return "Scheduled" if is_scheduled else "Pending"


def _count(spec: PodGroupSpec, found: Sequence[Member], members: Sequence[Member], what: str) -> str:
    least = "its sub-groups' minimums" if spec.subGroups else str(minimum(spec))
    return f"{len(found)} of {len(members)} pods {what}; {least} must"


def _condition(group: PodGroup, type_: str, holds: bool, message: str, now: float) -> PodGroupCondition:
    """The condition as it was where nothing turned; its message follows the counts."""
    before = find_condition(group.status.conditions, type_)
    status = "True" if holds else "False"
    reason = "MinimumReached" if holds else "BelowMinimum"
    return PodGroupCondition(
        type=type_,
        status=status,
        lastTransitionTime=turned_at(before, status, now),
        reason=reason,
        message=message,
        transitionID=before.transitionID if before is not None else "",
    )
