"""How a PodGang fares: phase, conditions, placement score, from its pods, its cliques, its scheduler's verdict. Pure.

    Scheduled         each pod group has its minimum of pods with a node
    Ready             each pod group has its minimum of ready pods
    Unhealthy         it ran and fell below a minimum: a candidate for termination
    DisruptionTarget  it is about to lose its place: the scheduler takes it, or it was unhealthy for too long

`Initialized` is the set controller's, and is left as it is; a gang that no set controls gets it here. Phases: Pending,
Starting from the first pod with a node on, Running when all pods run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import GangPodGroup, PodClique, PodGang, PodGangStatus
from bosket.api.object import Condition
from bosket.api.ownership import controller_of
from bosket.api.time import format_time, time_or_zero
from bosket.grove.backends.backend import Verdict
from bosket.grove.backends.placement_score import placement_score

INITIALIZED: Final = "Initialized"
SCHEDULED: Final = "Scheduled"
READY: Final = "Ready"
UNHEALTHY: Final = "Unhealthy"
DISRUPTION_TARGET: Final = "DisruptionTarget"

#: A condition that turned later than this after the object's creation had another status before.
_FIRST_SECONDS: Final = 5.0
_SMALL_NEWS_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Observation:
    """The inputs of a gang's status."""

    pods: tuple[Pod, ...] = ()
    #: By pod group.
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    #: Labels of nodes by name.
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: the termination delay; None if the gang is never terminated
    termination_delay_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """A condition without its history."""

    holds: bool
    reason: str
    message: str


def status_of(gang: PodGang, seen: Observation, now: float) -> PodGangStatus:
    """The whole status, with conditions of other writers kept."""
    pods = [pod for pod in seen.pods if _is_live(pod)]
    states = {
        SCHEDULED: _scheduled(gang, pods, seen.verdict),
        READY: _count(gang, pods, _is_ready, "Ready", "ready"),
        UNHEALTHY: _unhealthy(gang, pods, seen),
    }
    unhealthy_since = _since(gang, UNHEALTHY, states[UNHEALTHY].holds, now)
    states[DISRUPTION_TARGET] = _disruption_target(gang, seen, now - unhealthy_since if unhealthy_since else None)
    if controller_of(gang) is None:
        states = {INITIALIZED: _initialized(gang, pods), **states}
    return PodGangStatus(
        phase=_phase(gang, pods),
        conditions=_merged(gang, states, now),
        placementScore=placement_score(gang, pods, seen.nodes) if states[SCHEDULED].holds else None,
    )


def look_again_seconds(status: PodGangStatus, seen: Observation, now: float) -> float | None:
    """Seconds after which the status may differ although no object changed."""
    unhealthy = condition(status.conditions, UNHEALTHY)
    delay = seen.termination_delay_seconds
    if unhealthy is None or unhealthy.status != "True" or delay is None:
        return None
    left = time_or_zero(unhealthy.lastTransitionTime) + delay - now
    return left + 1.0 if left > 0 else None  # times are written to the second


def patience_seconds(before: PodGangStatus, after: PodGangStatus) -> float:
    """How long a change of the status may be debounced: first conditions of a new gang, and counts of pods."""
    previous = {each.type: each.status for each in before.conditions}
    if any(each.type in previous and previous[each.type] != each.status for each in after.conditions):
        return 0.0
    return 0.0 if before.phase != after.phase == "Running" else _SMALL_NEWS_SECONDS


def condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type."""
    return next((each for each in conditions if each.type == type_), None)


# --- what each condition follows from


def _scheduled(gang: PodGang, pods: list[Pod], verdict: Verdict) -> _State:
    state = _count(gang, pods, lambda pod: bool(pod.spec.nodeName), "Scheduled", "scheduled")
    if state.holds or not (verdict.reason or verdict.message):
        return state
    message = f"{verdict.message} ({state.message})" if verdict.message else state.message
    return _State(False, verdict.reason or state.reason, message)


def _count(gang: PodGang, pods: list[Pod], counts: Callable[[Pod], bool], reason: str, what: str) -> _State:
    """Whether each pod group has its minimum of pods that count."""
    lacking = []
    for group in gang.spec.podgroups:
        found = sum(map(counts, _of_group(group, pods)))
        if found < group.minReplicas:
            lacking.append(f"{group.name} {found} of {group.minReplicas}")
    if lacking:
        return _State(False, f"PodsNot{reason}", f"too few pods are {what}: {', '.join(lacking)}")
    return _State(True, f"Pods{reason}", f"each pod group has its minimum of {what} pods")


def _unhealthy(gang: PodGang, pods: list[Pod], seen: Observation) -> _State:
    if seen.verdict.unhealthy:
        return _State(True, "Stale", seen.verdict.unhealthy)
    for group in gang.spec.podgroups:
        clique = seen.cliques.get(group.name)
        breach = condition(clique.status.conditions, "MinAvailableBreached") if clique is not None else None
        if clique is not None and breach is not None and breach.status == "True" and _was_scheduled(clique):
            return _State(True, breach.reason, f"PodClique {group.name}: {breach.message or breach.reason}")
    if not seen.cliques and _has_been(gang, SCHEDULED):
        state = _count(gang, pods, lambda pod: bool(pod.spec.nodeName), "Scheduled", "scheduled")
        if not state.holds:
            return _State(True, "BelowMinimum", state.message)
    return _State(False, "Healthy", "no pod group has fallen below its minimum")


def _was_scheduled(clique: PodClique) -> bool:
    """Whether the clique has had its minimum; from the start, one that still waits is below it too."""
    scheduled = condition(clique.status.conditions, "PodCliqueScheduled")
    if scheduled is None:
        return False
    later = time_or_zero(scheduled.lastTransitionTime) - time_or_zero(clique.metadata.creationTimestamp)
    return scheduled.status == "True" or later > _FIRST_SECONDS


def _has_been(gang: PodGang, type_: str) -> bool:
    """Whether a condition was true before: it still is, or the gang already fell below its minimum once."""
    found, fallen = condition(gang.status.conditions, type_), condition(gang.status.conditions, UNHEALTHY)
    return any(each is not None and each.status == "True" for each in (found, fallen))


def _disruption_target(gang: PodGang, seen: Observation, unhealthy_seconds: float | None) -> _State:
    if seen.verdict.disruption:
        return _State(True, "PreemptionByScheduler", seen.verdict.disruption)
    delay = seen.termination_delay_seconds
    if delay is not None and unhealthy_seconds is not None and unhealthy_seconds >= delay:
        return _State(True, "TerminationDelayElapsed", "it was unhealthy for as long as its set allows")
    for group in gang.spec.podgroups:
        bound = [pod for pod in seen.pods if _is_of(group, pod) and pod.spec.nodeName and not _has_ended(pod)]
        stay = [pod for pod in bound if not _is_disrupted(pod)]
        if len(stay) < group.minReplicas <= len(bound):
            names = ", ".join(pod.metadata.name for pod in bound if _is_disrupted(pod))
            return _State(True, "PodsDisrupted", f"{group.name} falls below its minimum with {names}")
    return _State(False, "NotDisrupted", "nothing is about to take its place")


def _initialized(gang: PodGang, pods: list[Pod]) -> _State:
    """As Grove's set controller says it: all pods exist that the gang refers to."""
    names = {pod.metadata.name for pod in pods}
    for group in gang.spec.podgroups:
        there = sum(reference.name in names for reference in group.podReferences)
        if there < max(group.minReplicas, len(group.podReferences)):
            return _State(False, "PodGangPodsCreationPending", f"{group.name} has {there} pods that exist")
    return _State(True, "PodGangPodsCreated", "PodGang is fully initialized")


def _phase(gang: PodGang, pods: list[Pod]) -> str:
    if not any(pod.spec.nodeName for pod in pods):
        return "Pending"
    complete = _count(gang, pods, lambda pod: pod.status.phase == "Running", "Running", "running").holds
    return "Running" if complete and all(pod.status.phase == "Running" for pod in pods) else "Starting"


# --- pods


def _of_group(group: GangPodGroup, pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if _is_of(group, pod)]


def _is_of(group: GangPodGroup, pod: Pod) -> bool:
    return pod.metadata.labels.get(keys.GROVE_POD_CLIQUE_LABEL) == group.name


def _is_live(pod: Pod) -> bool:
    return not pod.metadata.deletionTimestamp and not _has_ended(pod)


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def _is_disrupted(pod: Pod) -> bool:
    return any(each.type == DISRUPTION_TARGET and each.status == "True" for each in pod.status.conditions)


# --- history


def _since(gang: PodGang, type_: str, holds: bool, now: float) -> float | None:
    """Since when it holds; None where it doesn't."""
    if not holds:
        return None
    before = condition(gang.status.conditions, type_)
    return time_or_zero(before.lastTransitionTime) if before is not None and before.status == "True" else now


def _merged(gang: PodGang, states: Mapping[str, _State], now: float) -> tuple[Condition, ...]:
    found = {each.type: each for each in gang.status.conditions}
    for type_, state in states.items():
        status, before = "True" if state.holds else "False", found.get(type_)
        turned = before is None or before.status != status
        found[type_] = Condition(
            type=type_,
            status=status,
            lastTransitionTime=format_time(now) if turned or before is None else before.lastTransitionTime,
            reason=state.reason,
            message=state.message,
        )
    return tuple(found.values())
