"""Who is up to date: PodCliques and scaling groups compared with what their set's template says now."""

from __future__ import annotations

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupUpdateProgress, PodCliqueSet
from bosket.api.grove.naming import TEMPLATE_HASH_LABEL
from bosket.grove.render.template import clique_minimum
from bosket.grove.render.template_hash import expected_hash


def has_template(owner: PodCliqueSet, clique: PodClique) -> bool:
    """Whether a PodClique was made from the present template; its pods may be older."""
    expected = expected_hash(owner, clique)
    return bool(expected) and clique.metadata.labels.get(TEMPLATE_HASH_LABEL) == expected


def has_settled(owner: PodCliqueSet, clique: PodClique) -> bool:
    """Whether a PodClique's pods, too, are of the present template."""
    generation = owner.status.currentGenerationHash
    return (
        generation is not None
        and has_template(owner, clique)
        and clique.status.currentPodTemplateHash == clique.metadata.labels[TEMPLATE_HASH_LABEL]
        and clique.status.currentPodCliqueSetGenerationHash == generation
    )


def is_available(clique: PodClique) -> bool:
    """Whether a PodClique has enough pods that are ready."""
    return clique.status.readyReplicas >= clique_minimum(clique)


def is_updated(owner: PodCliqueSet, clique: PodClique) -> bool:
    """Whether a PodClique is done with an update: settled, with enough pods that are ready."""
    return (
        has_settled(owner, clique) and is_available(clique) and clique.status.updatedReplicas >= clique_minimum(clique)
    )


def is_group_updated(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> bool:
    """Whether a scaling group is done with the set's present template."""
    generation = owner.status.currentGenerationHash
    return generation is not None and group.status.currentPodCliqueSetGenerationHash == generation


def is_group_updating(progress: PodCliqueScalingGroupUpdateProgress | None) -> bool:
    """Whether an update of replicas is under way."""
    return progress is not None and progress.updateEndedAt is None
