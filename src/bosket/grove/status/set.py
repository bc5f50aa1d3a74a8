"""The status of a PodCliqueSet, from its PodCliques, scaling groups and gangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from bosket.api.grove import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetStatus,
    PodGang,
    PodGangStatusSummary,
)
from bosket.api.grove.naming import managed_labels
from bosket.grove.condition import have_turned
from bosket.grove.render.template import groups_of, is_terminating, standalone_names
from bosket.grove.render.topology_levels import with_topology_condition
from bosket.grove.status.gathering import NUMBERS_SECONDS, differ_only_in
from bosket.grove.status.update import is_available, is_group_updated, is_updated


def set_status(
    owner: PodCliqueSet,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
    gangs: Sequence[PodGang],
    binding: ClusterTopologyBinding | None,
    *,
    topology_aware: bool,
    now: float,
) -> PodCliqueSetStatus:
    """The new status; `cliques` and `groups`: the set's existing ones by name."""
    available = updated = all_cliques = updated_cliques = all_groups = updated_groups = 0
    for replica in range(owner.spec.replicas):
        names = standalone_names(owner, replica)
        group_names = [each.name for each in groups_of(owner, replica)]
        found = [each for name in names if (each := cliques.get(name)) and not is_terminating(each)]
        found_groups = [group for name in group_names if (group := groups.get(name)) and not is_terminating(group)]
        done = sum(is_updated(owner, each) for each in found)
        done_groups = sum(is_group_updated(owner, each) for each in found_groups)
        all_cliques += len(names)
        all_groups += len(group_names)
        updated_cliques += done
        updated_groups += done_groups
        if (
            len(found) == len(names)
            and len(found_groups) == len(group_names)
            and all(map(is_available, found))
            and all(each.status.availableReplicas >= each.spec.minAvailable for each in found_groups)
        ):
            available += 1
            updated += done == len(names) and done_groups == len(group_names)
    progress = owner.status.updateProgress
    if progress is not None:
        progress = replace(
            progress,
            updatedPodCliquesCount=updated_cliques,
            totalPodCliquesCount=all_cliques,
            updatedPodCliqueScalingGroupsCount=updated_groups,
            totalPodCliqueScalingGroupsCount=all_groups,
        )
    labels = managed_labels(owner.metadata.name)
    return replace(
        owner.status,
        replicas=owner.spec.replicas,
        availableReplicas=available,
        updatedReplicas=updated,
        updateProgress=progress,
        hpaPodSelector=",".join(f"{key}={labels[key]}" for key in sorted(labels)),
        conditions=with_topology_condition(owner.status.conditions, owner, binding, enabled=topology_aware, now=now),
        podGangStatuses=tuple(map(_summary, sorted(gangs, key=lambda each: each.metadata.name))),
    )


def patience_seconds(before: PodCliqueSetStatus, after: PodCliqueSetStatus) -> float:
    """How long a change of the status may wait for others; how gangs fare can, and numbers on their way."""
    if _reached(before) != _reached(after) or have_turned(before.conditions, after.conditions):
        return 0.0
    fields = ("availableReplicas", "updatedReplicas", "conditions", "podGangStatuses")
    return NUMBERS_SECONDS if differ_only_in(before, after, *fields) else 0.0


def _reached(status: PodCliqueSetStatus) -> tuple[bool, bool]:
    """Whether some replica is available, and whether all are."""
    return status.availableReplicas > 0, status.availableReplicas >= status.replicas


#: What conditions of a gang say where there is nothing to say; a summary of hundreds of gangs goes without them.
_USUAL: Final = frozenset({("Initialized", "True"), ("Unhealthy", "False"), ("DisruptionTarget", "False")})


def _summary(gang: PodGang) -> PodGangStatusSummary:
    phase: Literal["Pending", "Starting", "Running"]
    match gang.status.phase:
        case "Starting" | "Running" as said:
            phase = said
        case _:
            phase = "Pending"
    remarkable = tuple(each for each in gang.status.conditions if (each.type, each.status) not in _USUAL)
    return PodGangStatusSummary(name=gang.metadata.name, phase=phase, conditions=remarkable)
