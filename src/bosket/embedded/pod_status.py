"""The statuses that a kubelet writes for a pod, each computed from the pod before; `pod_lifecycle` says when.

Nothing here decides or talks to a server. Conditions of other writers (PodScheduled, DisruptionTarget) stay as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from bosket.api.condition import turned_at
from bosket.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from bosket.api.time import format_time

#: The exit code of a container after SIGTERM: 128 + 15.
STOPPED_EXIT_CODE: Final = 143

_FIRST_BACKOFF_SECONDS: Final = 10.0
_LONGEST_BACKOFF_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pod runs."""

    host_address: str
    #: Hands out an address for the pod, once, when it starts.
    pod_address: Callable[[], str]


def restart_backoff_seconds(restart_count: int) -> float:
    """Before the next restart: none before the first, then 10 s, doubling, at most 5 minutes."""
    if restart_count == 0:
        return 0.0
    return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(restart_count - 1, 10), _LONGEST_BACKOFF_SECONDS)


def refused(pod: Pod, reason: str, message: str, now: float) -> PodStatus:
    """The node doesn't take the pod."""
    return replace(pod.status, phase="Failed", reason=reason, message=message, startTime=format_time(now))


def creating(pod: Pod, now: float) -> PodStatus:
    """Admitted; the containers don't run yet."""
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
    return replace(
        pod.status,
        phase="Pending",
        startTime=format_time(now),
        containerStatuses=tuple(_container(container, waiting) for container in pod.spec.containers),
    )


def initializing(pod: Pod, now: float) -> PodStatus:
    """Admitted; the last init container runs, and what comes after it waits for that."""
    at = format_time(now)
    *done, last = pod.spec.initContainers
    completed = ContainerState(
        terminated=ContainerStateTerminated(exitCode=0, reason="Completed", startedAt=at, finishedAt=at)
    )
    running = ContainerState(running=ContainerStateRunning(startedAt=at))
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))
    conditions = [
        ("Initialized", "False", "ContainersNotInitialized"),
        ("ContainersReady", "False", "ContainersNotReady"),
        ("Ready", "False", "ContainersNotReady"),
    ]
    return replace(
        pod.status,
        phase="Pending",
        startTime=at,
        conditions=_conditions(pod, now, conditions),
        initContainerStatuses=(*(_container(each, completed) for each in done), _container(last, running)),
        containerStatuses=tuple(_container(container, waiting) for container in pod.spec.containers),
    )


def started(pod: Pod, place: Place, now: float) -> PodStatus:
    """All containers run; init containers are done, sidecars run with the rest."""
    at = format_time(now)
    running = ContainerState(running=ContainerStateRunning(startedAt=at))
    completed = ContainerState(
        terminated=ContainerStateTerminated(exitCode=0, reason="Completed", startedAt=at, finishedAt=at)
    )
    address = place.host_address if pod.spec.hostNetwork else place.pod_address()
    conditions = [
        (type_, "True", "") for type_ in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ]
    return replace(
        pod.status,
        phase="Running",
        startTime=pod.status.startTime or at,
        hostIP=place.host_address,
        hostIPs=(HostIP(ip=place.host_address),),
        podIP=address,
        podIPs=(PodIP(ip=address),),
        conditions=_conditions(pod, now, conditions),
        initContainerStatuses=tuple(
            _container(container, running if container.restartPolicy == "Always" else completed, ready=True)
            for container in pod.spec.initContainers
        ),
        containerStatuses=tuple(_container(container, running, ready=True) for container in pod.spec.containers),
    )


def restarted(pod: Pod, now: float, exit_code: int | None = None) -> PodStatus:
    """Running again; `exit_code` says how the last run ended unless `lastState` already does."""
    running = ContainerState(running=ContainerStateRunning(startedAt=format_time(now)))
    return replace(
        pod.status,
        conditions=_conditions(pod, now, [("ContainersReady", "True", ""), ("Ready", "True", "")]),
        containerStatuses=tuple(
            replace(
                status,
                state=running,
                lastState=status.lastState if exit_code is None else _terminated(status, exit_code, now),
                restartCount=status.restartCount + 1,
                ready=True,
                started=True,
            )
            for status in pod.status.containerStatuses
        ),
    )


def backing_off(pod: Pod, exit_code: int, now: float) -> PodStatus:
    """The containers have exited once too often to be restarted at once."""
    conditions = [(type_, "False", "ContainersNotReady") for type_ in ("ContainersReady", "Ready")]
    return replace(
        pod.status,
        conditions=_conditions(pod, now, conditions),
        containerStatuses=tuple(
            replace(
                status,
                state=ContainerState(
                    waiting=ContainerStateWaiting(
                        reason="CrashLoopBackOff",
                        message=f"restarts in {restart_backoff_seconds(status.restartCount):.0f}s",
                    )
                ),
                lastState=_terminated(status, exit_code, now),
                ready=False,
                started=False,
            )
            for status in pod.status.containerStatuses
        ),
    )


def ended(pod: Pod, exit_code: int, now: float) -> PodStatus:
    """All containers have exited, for good."""
    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    conditions = [
        ("PodReadyToStartContainers", "False", ""),
        ("ContainersReady", "False", reason),
        ("Ready", "False", reason),
    ]
    return replace(
        pod.status,
        phase="Succeeded" if exit_code == 0 else "Failed",
        conditions=_conditions(pod, now, conditions),
        containerStatuses=tuple(
            replace(status, state=_terminated(status, exit_code, now), ready=False, started=False)
            for status in pod.status.containerStatuses
        ),
    )


def disrupted(pod: Pod, reason: str, message: str, now: float) -> PodStatus:
    """It ends through no fault of its own; those who count failures may overlook this one."""
    target = PodCondition(
        type="DisruptionTarget", status="True", reason=reason, message=message, lastTransitionTime=format_time(now)
    )
    others = (each for each in pod.status.conditions if each.type != target.type)
    return replace(pod.status, conditions=(*others, target))


def exceeded_deadline(pod: Pod, now: float) -> PodStatus:
    """Stopped because its `activeDeadlineSeconds` are over."""
    return replace(
        ended(pod, STOPPED_EXIT_CODE, now),
        reason="DeadlineExceeded",
        message=f"pod was active longer than its activeDeadlineSeconds of {pod.spec.activeDeadlineSeconds}",
    )


def _container(container: Container, state: ContainerState, *, ready: bool = False) -> ContainerStatus:
    return ContainerStatus(
        name=container.name,
        image=container.image,
        imageID=container.image,
        ready=ready,
        started=state.running is not None,
        restartCount=0,
        state=state,
    )


def _terminated(status: ContainerStatus, exit_code: int, now: float) -> ContainerState:
    running = status.state.running
    return ContainerState(
        terminated=ContainerStateTerminated(
            exitCode=exit_code,
            reason="Completed" if exit_code == 0 else "Error",
            startedAt=running.startedAt if running is not None else None,
            finishedAt=format_time(now),
        )
    )


def _conditions(pod: Pod, now: float, wanted: Iterable[tuple[str, str, str]]) -> tuple[PodCondition, ...]:
    """The pod's conditions with (type, status, reason) set; where the status stays, so does its transition time."""
    conditions = {condition.type: condition for condition in pod.status.conditions}
    for type_, status, reason in wanted:
        since = turned_at(conditions.get(type_), status, now)
        conditions[type_] = PodCondition(type=type_, status=status, reason=reason, lastTransitionTime=since)
    return tuple(conditions.values())
