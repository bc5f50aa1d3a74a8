"""The life of a pod on a simulated node, as a state machine that does no I/O.

The kubelet calls `next_step` whenever a pod changed or the time of its next step has come, and carries the step out.
All state is in the pod's own status, so a kubelet that starts anew goes on where the last one stopped. Times on the
wire have whole seconds; the kubelet passes the exact moment it remembers as `observed`, and it counts where it agrees
with what is written.

    bound ──► (PodInitializing, while others start first) ──► (ContainerCreating, with a start delay) ──►
          ──► Running ──► Succeeded / Failed ──► removed
              │    ▲
              ▼────┘   CrashLoopBackOff (restartPolicy)
"""

from __future__ import annotations

from dataclasses import dataclass

from bosket.api.core import Pod, PodStatus
from bosket.api.pod_phase import ENDED, has_ended
from bosket.api.time import format_time, parse_time
from bosket.embedded import pod_status
from bosket.embedded.pod_status import Place, restart_backoff_seconds
from bosket.embedded.simulation import Behaviour


@dataclass(frozen=True, slots=True)
class Write:
    """The pod's status becomes this."""

    status: PodStatus


@dataclass(frozen=True, slots=True)
class Remove:
    """The pod has stopped: take it away."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before that many seconds have passed."""

    seconds: float


#: None: nothing to do until the pod changes.
Step = Write | Remove | Wait | None


def next_step(
    pod: Pod, behaviour: Behaviour, place: Place, now: float, observed: float | None = None, *, is_held: bool = False
) -> Step:
    """What a kubelet does with a pod that is bound to its node and was admitted.

    One that `is_held` has an init container that waits for other pods.
    """
    if pod.metadata.deletionTimestamp is not None:
        return _stop(pod, behaviour, now, observed)
    phase = pod.status.phase
    if phase in ENDED:
        return None
    deadline = _deadline(pod)
    if deadline is not None and now >= deadline:
        return Write(pod_status.exceeded_deadline(pod, now))
    if phase == "Running":
        step = _run(pod, behaviour, now, observed)
    elif is_held:
        step = Write(pod_status.initializing(pod, now)) if pod.status.startTime is None else None
    else:
        step = _start(pod, behaviour, place, now, observed)
    if deadline is not None and (step is None or isinstance(step, Wait)):
        until_deadline = deadline - now
        return Wait(until_deadline if step is None else min(step.seconds, until_deadline))
    return step


def _start(pod: Pod, behaviour: Behaviour, place: Place, now: float, observed: float | None) -> Step:
    delay = behaviour.start_delay_seconds
    if delay > 0:
        if pod.status.startTime is None:
            return Write(pod_status.creating(pod, now))
        due = _exact(pod.status.startTime, observed) + delay
        if now < due:
            return Wait(due - now)
    return Write(pod_status.started(pod, place, now))


def _run(pod: Pod, behaviour: Behaviour, now: float, observed: float | None) -> Step:
    statuses = pod.status.containerStatuses
    first = statuses[0] if statuses else None  # all containers of a simulated pod do the same
    if first is None:
        return None
    if first.state.waiting is not None:
        ended = first.lastState.terminated
        if ended is None or ended.finishedAt is None:
            return Write(pod_status.restarted(pod, now))
        due = _exact(ended.finishedAt, observed) + restart_backoff_seconds(first.restartCount)
        return Write(pod_status.restarted(pod, now)) if now >= due else Wait(due - now)
    if behaviour.run_seconds is None or first.state.running is None or first.state.running.startedAt is None:
        return None
    due = _exact(first.state.running.startedAt, observed) + behaviour.run_seconds
    if now < due:
        return Wait(due - now)
    policy = pod.spec.restartPolicy or "Always"
    if policy == "Always" or (policy == "OnFailure" and behaviour.exit_code != 0):
        if restart_backoff_seconds(first.restartCount) > 0:
            return Write(pod_status.backing_off(pod, behaviour.exit_code, now))
        return Write(pod_status.restarted(pod, now, behaviour.exit_code))
    return Write(pod_status.ended(pod, behaviour.exit_code, now))


def _stop(pod: Pod, behaviour: Behaviour, now: float, observed: float | None) -> Step:
    assert pod.metadata.deletionTimestamp is not None
    grace = float(pod.metadata.deletionGracePeriodSeconds or 0)
    if not has_ended(pod):
        asked = _exact(format_time(parse_time(pod.metadata.deletionTimestamp) - grace), observed)
        due = asked + min(behaviour.stop_delay_seconds, grace)
        if now < due:
            return Wait(due - now)
        if pod.metadata.finalizers:
            # It will stay visible until its finalizers are done; those who hold them wait to see it stopped.
            return Write(pod_status.ended(pod, pod_status.STOPPED_EXIT_CODE, now))
    # With a grace period of 0 the server already took it away, or waits for finalizers only.
    return Remove() if grace > 0 else None


def _deadline(pod: Pod) -> float | None:
    if pod.spec.activeDeadlineSeconds is None or pod.status.startTime is None:
        return None
    return parse_time(pod.status.startTime) + pod.spec.activeDeadlineSeconds


def _exact(recorded: str, observed: float | None) -> float:
    """The recorded time, which lost its fraction of a second, or the observed one if it is the same second."""
    whole = parse_time(recorded)
    return observed if observed is not None and 0 <= observed - whole < 1 else whole
