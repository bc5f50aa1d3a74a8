"""The status of a Deployment, on which `kubectl rollout status` and `kubectl wait` rely."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from bosket.api.condition import find_condition, turned_at
from bosket.api.time import format_time, parse_time
from bosket.embedded.controllers.deployment_scale import bounds, replicas_of

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"

_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_DONE: Final = "NewReplicaSetAvailable"
#: A deadline that the API means as "none".
_NO_DEADLINE: Final = 2**31 - 1


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], now: float
) -> DeploymentStatus:
    """The status that follows from the sets."""
    sets = [*old, *([new] if new is not None else [])]
    available = sum(each.status.availableReplicas for each in sets)
    status = replace(
        deployment.status,
        observedGeneration=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updatedReplicas=new.status.replicas if new is not None else 0,
        readyReplicas=sum(each.status.readyReplicas for each in sets),
        availableReplicas=available,
        unavailableReplicas=max(0, sum(replicas_of(each) for each in sets) - available),
    )
    status = _with_availability(deployment, status, now)
    status = _with_failure(status, sets, now)
    return _with_progress(deployment, status, new, now)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether every pod is of the present template, serves, and is wanted."""
    size = replicas_of(deployment)
    return (
        status.updatedReplicas == status.replicas == status.availableReplicas == size
        and status.observedGeneration >= deployment.metadata.generation
    )


def seconds_until_deadline(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """When the rollout is late if nothing happens any more; None when it can't be."""
    deadline, condition = _deadline(deployment), find_condition(status.conditions, PROGRESSING)
    if deadline is None or condition is None or condition.lastUpdateTime is None:
        return None
    if deployment.spec.paused or condition.reason in (_DONE, _TIMED_OUT):
        return None
    return max(0.0, parse_time(condition.lastUpdateTime) + deadline - now)


def with_condition(status: DeploymentStatus, condition: DeploymentCondition, now: float) -> DeploymentStatus:
    """Set a condition; one that says the same already stays as it is."""
    known = find_condition(status.conditions, condition.type)
    if known is not None and (known.status, known.reason) == (condition.status, condition.reason):
        return status
    return _renewed(status, condition, now)


def progress_note(
    deployment: Deployment, reason: str, message: str, *, status: str = "True"
) -> DeploymentCondition | None:
    """A Progressing condition, for deployments that have a deadline; others have none."""
    if _deadline(deployment) is None:
        return None
    return DeploymentCondition(type=PROGRESSING, status=status, reason=reason, message=message)


def _renewed(status: DeploymentStatus, condition: DeploymentCondition, now: float) -> DeploymentStatus:
    turned = turned_at(find_condition(status.conditions, condition.type), condition.status, now)
    stamped = replace(condition, lastUpdateTime=format_time(now), lastTransitionTime=turned)
    others = tuple(each for each in status.conditions if each.type != condition.type)
    return replace(status, conditions=(*others, stamped))


def _with_availability(deployment: Deployment, status: DeploymentStatus, now: float) -> DeploymentStatus:
    if status.availableReplicas >= replicas_of(deployment) - bounds(deployment).unavailable:
        condition = DeploymentCondition(
            type=AVAILABLE,
            status="True",
            reason="MinimumReplicasAvailable",
            message="Deployment has minimum availability.",
        )
    else:
        condition = DeploymentCondition(
            type=AVAILABLE,
            status="False",
            reason="MinimumReplicasUnavailable",
            message="Deployment does not have minimum availability.",
        )
    return with_condition(status, condition, now)


def _with_failure(status: DeploymentStatus, sets: list[ReplicaSet], now: float) -> DeploymentStatus:
    failed = [each for one in reversed(sets) for each in one.status.conditions if each.type == FAILURE]
    if not failed:
        others = tuple(each for each in status.conditions if each.type != FAILURE)
        return status if others == status.conditions else replace(status, conditions=others)
    first = failed[0]
    condition = DeploymentCondition(type=FAILURE, status=first.status, reason=first.reason, message=first.message)
    return with_condition(status, condition, now)


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: float
) -> DeploymentStatus:
    known = find_condition(status.conditions, PROGRESSING)
    settled = known is not None and known.reason == _DONE and status.replicas == status.updatedReplicas
    if _deadline(deployment) is None or deployment.spec.paused or settled:
        return status
    subject = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if is_complete(deployment, status):
        done = DeploymentCondition(
            type=PROGRESSING, status="True", reason=_DONE, message=f"{subject} has successfully progressed."
        )
        return with_condition(status, done, now)
    if _came_further(deployment.status, status):
        moving = DeploymentCondition(
            type=PROGRESSING, status="True", reason="ReplicaSetUpdated", message=f"{subject} is progressing."
        )
        return _renewed(status, moving, now)
    if seconds_until_deadline(deployment, status, now) == 0:
        late = DeploymentCondition(
            type=PROGRESSING, status="False", reason=_TIMED_OUT, message=f"{subject} has timed out progressing."
        )
        return with_condition(status, late, now)
    return status


def _came_further(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updatedReplicas > before.updatedReplicas
        or after.replicas - after.updatedReplicas < before.replicas - before.updatedReplicas
        or after.readyReplicas > before.readyReplicas
        or after.availableReplicas > before.availableReplicas
    )


def _deadline(deployment: Deployment) -> int | None:
    deadline = deployment.spec.progressDeadlineSeconds
    return None if deadline is None or deadline >= _NO_DEADLINE else deadline
