"""The status of a scaling group, from its PodCliques."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueSet
from bosket.api.grove.naming import GROUP_LABEL, managed_labels
from bosket.grove.condition import (
    BREACHED,
    CLIQUE_SCHEDULED,
    TERMINATING_GANG,
    UPDATING,
    have_turned,
    is_true,
    status_of,
    with_condition,
    without,
)
from bosket.grove.render.template import group_config_of, is_terminating, member_names
from bosket.grove.status.gathering import NUMBERS_SECONDS, WORDS_SECONDS, differ_only_in
from bosket.grove.status.termination import remember_missed, remember_whole, was_scheduled
from bosket.grove.status.update import has_settled, has_template, is_available, is_group_updating, is_updated


def group_status(
    owner: PodCliqueSet, group: PodCliqueScalingGroup, cliques: Iterable[PodClique], now: float
) -> PodCliqueScalingGroupStatus:
    """The new status; `cliques`: all PodCliques of the group."""
    by_name = {each.metadata.name: each for each in cliques}
    replicas = [
        [by_name[name] for name in member_names(group, index) if name in by_name]
        for index in range(group.spec.replicas)
    ]
    whole = [each for each in map(_staying, replicas) if len(each) == len(group.spec.cliqueNames)]
    scheduled = [each for each in whole if all(map(_is_scheduled, each))]
    available = [each for each in scheduled if all(map(is_available, each))]
    updated = [each for each in available if all(is_updated(owner, clique) for clique in each)]
    status = replace(
        group.status,
        replicas=group.spec.replicas,
        scheduledReplicas=len(scheduled),
        availableReplicas=len(available),
        updatedReplicas=len(updated),
    )
    if status.updateProgress is not None:
        counted = sum(is_updated(owner, clique) for each in replicas for clique in _staying(each))
        progress = replace(
            status.updateProgress,
            updatedPodCliquesCount=counted,
            totalPodCliquesCount=group.spec.replicas * len(group.spec.cliqueNames),
        )
        status = replace(status, updateProgress=progress)
    status = _with_breach(group, status, whole, now)
    if group_config_of(owner, group) is not None:
        status = replace(status, selector=_selector(owner, group))
    return _with_hash(owner, group, status, replicas)


def patience_seconds(
    group: PodCliqueScalingGroup, before: PodCliqueScalingGroupStatus, after: PodCliqueScalingGroupStatus
) -> float:
    """How long a change of the status may wait for others; numbers on their way can, and the first ones too."""
    if before.lastErrors != after.lastErrors:
        return 0.0
    if before.observedGeneration is None:
        return NUMBERS_SECONDS
    if have_turned(before.conditions, after.conditions) or _reached(group, before) != _reached(group, after):
        return 0.0
    if differ_only_in(before, after, "conditions"):
        return WORDS_SECONDS
    hashes = before.currentPodCliqueSetGenerationHash, after.currentPodCliqueSetGenerationHash
    settles = before.updateProgress is not None and hashes[0] != hashes[1]
    numbers = ("scheduledReplicas", "availableReplicas", "updatedReplicas", "currentPodCliqueSetGenerationHash")
    return NUMBERS_SECONDS if not settles and differ_only_in(before, after, "conditions", *numbers) else 0.0


def _reached(group: PodCliqueScalingGroup, status: PodCliqueScalingGroupStatus) -> tuple[bool, bool]:
    """Whether enough replicas are available, and whether all are."""
    return status.availableReplicas >= group.spec.minAvailable, status.availableReplicas >= group.spec.replicas


def _staying(cliques: Sequence[PodClique]) -> list[PodClique]:
    return [each for each in cliques if not is_terminating(each)]


def _is_scheduled(clique: PodClique) -> bool:
    return is_true(clique.status.conditions, CLIQUE_SCHEDULED)


def _with_breach(
    group: PodCliqueScalingGroup,
    status: PodCliqueScalingGroupStatus,
    whole: Sequence[Sequence[PodClique]],
    now: float,
) -> PodCliqueScalingGroupStatus:
    if is_group_updating(status.updateProgress):
        said = ("Unknown", UPDATING, "Update is in progress")
    else:
        healthy = sum(not any(is_true(each.status.conditions, BREACHED) for each in replica) for replica in whole)
        minimum = group.spec.minAvailable
        if healthy < minimum:
            message = f"PCSG replicas not in breach ({healthy}) below MinAvailable ({minimum})"
            said = ("True", "InsufficientAvailablePodCliqueScalingGroupReplicas", message)
        else:
            message = f"PCSG replicas not in breach ({healthy}) meets MinAvailable ({minimum})"
            said = ("False", "SufficientAvailablePodCliqueScalingGroupReplicas", message)
    conditions = with_condition(status.conditions, BREACHED, *said, now=now)
    if said[0] == "False" and _has_recovered(group, whole):
        conditions = remember_whole(without(conditions, TERMINATING_GANG), group, now)
    elif said[0] == "True" and sum(all(map(was_scheduled, each)) for each in whole) >= group.spec.minAvailable:
        conditions = remember_missed(conditions, group, now)
    return replace(status, conditions=conditions)


def _has_recovered(group: PodCliqueScalingGroup, whole: Sequence[Sequence[PodClique]]) -> bool:
    """Whether enough replicas are known not to be in breach.

    PodCliques that were made a moment ago say nothing yet. Grove takes them for recovered, so that a gang that finds no
    place after its termination is terminated again and again.
    """
    healthy = sum(all(status_of(each.status.conditions, BREACHED) == "False" for each in replica) for replica in whole)
    return healthy >= group.spec.minAvailable


def _with_hash(
    owner: PodCliqueSet,
    group: PodCliqueScalingGroup,
    status: PodCliqueScalingGroupStatus,
    replicas: Sequence[Sequence[PodClique]],
) -> PodCliqueScalingGroupStatus:
    """The hash advances once every PodClique is settled and nothing is under way."""
    if owner.status.currentGenerationHash is None or is_group_updating(status.updateProgress):
        return status
    there = [clique for replica in replicas for clique in replica]
    expected = group.spec.replicas * len(group.spec.cliqueNames)
    if len(there) < expected or not all(has_template(owner, each) for each in there):
        return status
    if any(is_terminating(each) or not has_settled(owner, each) for each in there):
        return status
    return replace(status, currentPodCliqueSetGenerationHash=owner.status.currentGenerationHash)


def _selector(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> str:
    labels = {**managed_labels(owner.metadata.name), GROUP_LABEL: group.metadata.name}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
