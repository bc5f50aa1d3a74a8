"""Rolling updates of a PodClique's pods, as pure decisions: when an update begins, and its next step.

Old pods that aren't ready are replaced at once. Ready ones are replaced one at a time, the oldest first, once the last
replacement is ready and while enough pods are ready. There are never more pods than replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import (
    PodClique,
    PodCliqueSet,
    PodCliqueUpdateProgress,
    PodsSelectedToUpdate,
)
from bosket.api.time import format_time
from bosket.grove.render.template import clique_minimum, is_in_group, is_on_delete, set_replica_of, standalone_names
from bosket.grove.render.template_hash import expected_hash
from bosket.grove.status.clique import is_updating
from bosket.grove.status.pod_state import has_failed_container, has_unready_container, is_ready, template_hash_of


def begun_update(owner: PodCliqueSet, clique: PodClique, now: float) -> PodCliqueUpdateProgress | None:
    """The progress of an update that begins now; None if none does."""
    generation = owner.status.currentGenerationHash
    if generation is None or not _may_begin(owner, clique) or not _is_due(clique, generation):
        return None
    started = format_time(now)
    return PodCliqueUpdateProgress(
        updateStartedAt=started,
        updateEndedAt=started if is_on_delete(owner) else None,
        podCliqueSetGenerationHash=generation,
        podTemplateHash=expected_hash(owner, clique),
    )


def _may_begin(owner: PodCliqueSet, clique: PodClique) -> bool:
    """Whether it is this PodClique's turn. Those of scaling groups are replaced, not updated."""
    if is_on_delete(owner):
        return True
    replica = set_replica_of(clique)
    if is_in_group(clique) or clique.metadata.name not in standalone_names(owner, replica):
        return False
    progress = owner.status.updateProgress
    if progress is None or progress.updateEndedAt is not None:
        return True
    return bool(progress.currentlyUpdating) and progress.currentlyUpdating[0].replicaIndex == replica


def _is_due(clique: PodClique, generation: str) -> bool:
    progress = clique.status.updateProgress
    if progress is None:
        return clique.status.currentPodCliqueSetGenerationHash != generation
    return progress.podCliqueSetGenerationHash != generation


@dataclass(frozen=True, slots=True)
class Step:
    """The next step: write the progress, then delete pods."""

    progress: PodCliqueUpdateProgress
    delete: tuple[Pod, ...] = ()

    @property
    def has_ended(self) -> bool:
        return not is_updating(self.progress)


def next_step(
    clique: PodClique, pods: Sequence[Pod], is_terminating: Callable[[Pod], bool], target: str, now: float
) -> Step:
    """The next step of a running update; `pods`: all pods of the PodClique."""
    progress = clique.status.updateProgress
    assert progress is not None
    staying = [each for each in pods if not is_terminating(each)]
    old = [each for each in staying if template_hash_of(each) != target]
    ready = sorted(filter(_serves, old), key=lambda pod: (pod.metadata.creationTimestamp or "", pod.metadata.name))
    useless = tuple(each for each in old if each not in ready)
    new_ready = sum(template_hash_of(each) == target and is_ready(each) for each in pods)
    chosen = progress.readyPodsSelectedToUpdate
    if chosen is not None:
        left = tuple(each for each in ready if each.metadata.name == chosen.current)
        # Who was scaled in meanwhile has no replacement to wait for.
        is_whole = len(staying) >= clique.spec.replicas and all(map(is_ready, staying))
        if left or (new_ready < len(chosen.completed) + 1 and not is_whole):
            return Step(progress, (*useless, *left))
    if not ready:
        ended = replace(progress, updateEndedAt=format_time(now), readyPodsSelectedToUpdate=None)
        return Step(progress if useless else ended, useless)
    if sum(map(is_ready, staying)) < clique_minimum(clique):
        return Step(progress, useless)
    done = (*chosen.completed, chosen.current) if chosen is not None else ()
    selected = PodsSelectedToUpdate(current=ready[0].metadata.name, completed=done)
    return Step(replace(progress, readyPodsSelectedToUpdate=selected), (*useless, ready[0]))


def _serves(pod: Pod) -> bool:
    """Whether the pod is ready, so that its replacement must wait."""
    return (
        pod.status.phase != "Pending"
        and is_ready(pod)
        and not has_unready_container(pod)
        and not has_failed_container(pod)
    )
