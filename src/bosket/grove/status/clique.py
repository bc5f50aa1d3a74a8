"""The status of a PodClique, from its pods."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import PodClique, PodCliqueSet, PodCliqueStatus, PodCliqueUpdateProgress
from bosket.api.grove.naming import CLIQUE_LABEL, TEMPLATE_HASH_LABEL, managed_labels
from bosket.api.time import parse_time
from bosket.grove.condition import BREACHED, CLIQUE_SCHEDULED, UPDATING, have_turned, is_true, with_condition
from bosket.grove.render.template import clique_minimum, is_in_group, is_terminating
from bosket.grove.render.template_hash import expected_hash
from bosket.grove.status.gathering import NUMBERS_SECONDS, differ_only_in
from bosket.grove.status.pod_state import (
    has_failed_container,
    has_unready_container,
    is_gated,
    is_ready,
    is_scheduled,
    template_hash_of,
)
from bosket.grove.status.termination import remember_whole


def is_updating(progress: PodCliqueUpdateProgress | None) -> bool:
    """Whether an update of pods is under way."""
    return progress is not None and progress.updateEndedAt is None


def clique_status(owner: PodCliqueSet, clique: PodClique, pods: Sequence[Pod], now: float) -> PodCliqueStatus:
    """The new status; `pods`: all pods of the PodClique, including terminating ones."""
    status = replace(
        clique.status,
        replicas=sum(not is_terminating(each) for each in pods),
        readyReplicas=sum(map(is_ready, pods)),
        scheduleGatedReplicas=sum(map(is_gated, pods)),
        scheduledReplicas=sum(map(is_scheduled, pods)),
    )
    status = _with_updated(clique, status, pods)
    status = _with_hashes(owner, clique, status)
    if status.observedGeneration is not None:
        status = _with_conditions(clique, status, pods, now)
    if not is_in_group(clique):
        status = replace(status, hpaPodSelector=_selector(owner, clique))
    return status


def patience_seconds(clique: PodClique, before: PodCliqueStatus, after: PodCliqueStatus) -> float:
    """How long a change of the status may wait for others.

    Numbers on their way to one that matters can wait, and so can what a new PodClique has to tell first.
    """
    if before.lastErrors != after.lastErrors:
        return 0.0
    if before.observedGeneration is None and not is_true(after.conditions, CLIQUE_SCHEDULED):
        return NUMBERS_SECONDS
    if have_turned(before.conditions, after.conditions) or _reached(clique, before) != _reached(clique, after):
        return 0.0
    numbers_alone = differ_only_in(
        before, after, "replicas", "readyReplicas", "updatedReplicas", "scheduleGatedReplicas", "scheduledReplicas",
        "conditions",
    )  # fmt: skip
    return NUMBERS_SECONDS if numbers_alone and not is_updating(after.updateProgress) else 0.0


def _reached(clique: PodClique, status: PodCliqueStatus) -> tuple[bool, bool]:
    """Whether enough pods are ready, and whether all are."""
    return status.readyReplicas >= clique_minimum(clique), status.readyReplicas >= clique.spec.replicas


def _with_updated(clique: PodClique, status: PodCliqueStatus, pods: Sequence[Pod]) -> PodCliqueStatus:
    progress = status.updateProgress
    target = (
        progress.podTemplateHash
        if progress is not None
        else clique.metadata.labels.get(TEMPLATE_HASH_LABEL) or status.currentPodTemplateHash
    )
    if not target:
        return status
    return replace(status, updatedReplicas=sum(template_hash_of(each) == target for each in pods))


def _with_hashes(owner: PodCliqueSet, clique: PodClique, status: PodCliqueStatus) -> PodCliqueStatus:
    """The hashes advance once all pods are of the present template, and nothing is under way."""
    progress = status.updateProgress
    if is_updating(progress) or status.updatedReplicas != status.replicas:
        return status
    if progress is not None:
        return replace(
            status,
            currentPodTemplateHash=progress.podTemplateHash,
            currentPodCliqueSetGenerationHash=progress.podCliqueSetGenerationHash,
        )
    expected = expected_hash(owner, clique)
    if not expected or clique.metadata.labels.get(TEMPLATE_HASH_LABEL) != expected:
        return status
    return replace(
        status,
        currentPodTemplateHash=expected,
        currentPodCliqueSetGenerationHash=owner.status.currentGenerationHash,
    )


def _with_conditions(clique: PodClique, status: PodCliqueStatus, pods: Sequence[Pod], now: float) -> PodCliqueStatus:
    minimum, scheduled = clique_minimum(clique), status.scheduledReplicas
    if scheduled < minimum:
        said = ("False", "InsufficientScheduledPods", "Insufficient scheduled pods.")
    else:
        said = ("True", "SufficientScheduledPods", "Sufficient scheduled pods found.")
    message = f"{said[2]} expected at least: {minimum}, found: {scheduled}"
    breach = _breach(status, minimum, pods)
    created = clique.metadata.creationTimestamp
    if not status.conditions and created and said[0] == "False":
        # A late first write must not look like a change: the condition has always been so.
        now = parse_time(created)
    conditions = with_condition(status.conditions, CLIQUE_SCHEDULED, said[0], said[1], message, now=now)
    conditions = with_condition(conditions, BREACHED, *breach, now=now)
    if said[0] == "True":
        conditions = remember_whole(conditions, clique, now)
    return replace(status, conditions=conditions)


def _breach(status: PodCliqueStatus, minimum: int, pods: Sequence[Pod]) -> tuple[str, str, str]:
    """Whether the PodClique has fewer pods than its gang needs. Pods that are still starting count as pods."""
    if is_updating(status.updateProgress):
        return "Unknown", UPDATING, "Update is in progress"
    scheduled = status.scheduledReplicas
    if scheduled < minimum:
        message = f"Scheduled replicas ({scheduled}) below MinAvailable ({minimum})"
        return "True", "ScheduledReplicasBelowMinAvailable", message
    unready = sum(not is_ready(each) and (has_failed_container(each) or has_unready_container(each)) for each in pods)
    available = scheduled - unready
    found = f"expected at least: {minimum}, found: {available}"
    if available < minimum:
        return "True", "InsufficientReadyPods", f"Insufficient ready or starting pods. {found}"
    return "False", "SufficientReadyPods", f"Either sufficient ready or starting pods found. {found}"


def _selector(owner: PodCliqueSet, clique: PodClique) -> str:
    labels = {**managed_labels(owner.metadata.name), CLIQUE_LABEL: clique.metadata.name}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
