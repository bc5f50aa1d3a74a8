"""The state machine behind the kubelet, step by step, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import Container, Pod, PodCondition, PodSpec, PodStatus
from bosket.api.object import ObjectMeta
from bosket.api.time import format_time
from bosket.embedded.pod_lifecycle import Remove, Wait, Write, next_step
from bosket.embedded.pod_status import Place, restart_backoff_seconds
from bosket.embedded.simulation import Behaviour, InvalidBehaviour

NOW = 1_000_000.0
PLACE = Place(host_address="172.16.0.1", pod_address=lambda: "10.0.0.7")


def bound_pod(restart_policy: str = "Never", **metadata: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", uid="u", **metadata),
        spec=PodSpec(nodeName="node-000", restartPolicy=restart_policy, containers=(Container(name="main"),)),
        status=PodStatus(phase="Pending", conditions=(PodCondition(type="PodScheduled", status="True"),)),
    )


def after(pod: Pod, behaviour: Behaviour, now: float) -> Pod:
    """The pod with the status that the next step writes."""
    step = next_step(pod, behaviour, PLACE, now)
    assert isinstance(step, Write), step
    return replace(pod, status=step.status)


def conditions(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


def test_a_bound_pod_is_running_and_ready_after_one_write() -> None:
    pod = after(bound_pod(), Behaviour(), NOW)
    assert pod.status.phase == "Running"
    assert pod.status.startTime == format_time(NOW)
    assert (pod.status.hostIP, pod.status.podIP) == ("172.16.0.1", "10.0.0.7")
    assert conditions(pod) == {
        "PodScheduled": "True",
        "Initialized": "True",
        "PodReadyToStartContainers": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    (container,) = pod.status.containerStatuses
    assert container.ready
    assert container.state.running is not None
    assert next_step(pod, Behaviour(), PLACE, NOW + 1e6) is None


def test_a_start_delay_shows_as_container_creating_and_then_passes() -> None:
    behaviour = Behaviour(start_delay_seconds=5)
    pod = after(bound_pod(), behaviour, NOW)
    assert pod.status.phase == "Pending"
    waiting = pod.status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "ContainerCreating"
    assert next_step(pod, behaviour, PLACE, NOW + 2) == Wait(3)
    assert after(pod, behaviour, NOW + 5).status.phase == "Running"


@pytest.mark.parametrize(("exit_code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_pod_ends_after_its_run_duration_with_its_exit_code(exit_code: int, phase: str) -> None:
    behaviour = Behaviour(run_seconds=10, exit_code=exit_code)
    running = after(bound_pod(), behaviour, NOW)
    assert next_step(running, behaviour, PLACE, NOW + 4) == Wait(6)
    ended = after(running, behaviour, NOW + 10)
    assert ended.status.phase == phase
    assert conditions(ended)["Ready"] == "False"
    terminated = ended.status.containerStatuses[0].state.terminated
    assert terminated is not None
    assert terminated.exitCode == exit_code
    assert terminated.startedAt == format_time(NOW)
    assert next_step(ended, behaviour, PLACE, NOW + 1e6) is None


def test_the_exact_start_counts_while_the_kubelet_remembers_it() -> None:
    behaviour = Behaviour(run_seconds=1)
    running = after(bound_pod(), behaviour, NOW + 0.75)
    assert next_step(running, behaviour, PLACE, NOW + 1.25, NOW + 0.75) == Wait(0.5)
    # A kubelet that was started since has only the whole second that is written, and so errs towards ending early.
    assert isinstance(next_step(running, behaviour, PLACE, NOW + 1.25), Write)
    # What it remembers of another state of the pod doesn't count.
    assert isinstance(next_step(running, behaviour, PLACE, NOW + 1.25, NOW - 50), Write)


@pytest.mark.parametrize(
    ("policy", "exit_code", "restarts"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False)],
)
def test_the_restart_policy_decides_what_follows_an_exit(policy: str, exit_code: int, restarts: bool) -> None:
    behaviour = Behaviour(run_seconds=10, exit_code=exit_code)
    running = after(bound_pod(policy), behaviour, NOW)
    then = after(running, behaviour, NOW + 10)
    assert (then.status.phase == "Running") is restarts
    assert then.status.containerStatuses[0].restartCount == int(restarts)


def test_a_pod_that_fails_again_backs_off_before_it_restarts() -> None:
    behaviour = Behaviour(run_seconds=10, exit_code=1)
    first = after(bound_pod("Always"), behaviour, NOW)
    second = after(first, behaviour, NOW + 10)  # the first restart is immediate
    backing_off = after(second, behaviour, NOW + 20)
    (container,) = backing_off.status.containerStatuses
    assert container.state.waiting is not None
    assert container.state.waiting.reason == "CrashLoopBackOff"
    assert container.restartCount == 1
    assert container.lastState.terminated is not None
    assert container.lastState.terminated.exitCode == 1
    assert conditions(backing_off)["Ready"] == "False"
    assert next_step(backing_off, behaviour, PLACE, NOW + 22) == Wait(8)
    third = after(backing_off, behaviour, NOW + 30)
    assert third.status.containerStatuses[0].restartCount == 2
    assert conditions(third)["Ready"] == "True"


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    assert [restart_backoff_seconds(restarts) for restarts in (0, 1, 2, 3, 6, 100)] == [0, 10, 20, 40, 300, 300]


def test_a_pod_stops_after_its_own_time_but_never_later_than_its_grace() -> None:
    deletion: dict[str, Any] = {"deletionTimestamp": format_time(NOW + 30), "deletionGracePeriodSeconds": 30}
    slow = replace(after(bound_pod(), Behaviour(), NOW - 50), metadata=bound_pod(**deletion).metadata)
    assert next_step(slow, Behaviour(), PLACE, NOW) == Remove()
    assert next_step(slow, Behaviour(stop_delay_seconds=4), PLACE, NOW + 1) == Wait(3)
    assert next_step(slow, Behaviour(stop_delay_seconds=4), PLACE, NOW + 4) == Remove()
    assert next_step(slow, Behaviour(stop_delay_seconds=99), PLACE, NOW + 29) == Wait(1)
    assert next_step(slow, Behaviour(stop_delay_seconds=99), PLACE, NOW + 30) == Remove()


def test_a_stopped_pod_with_finalizers_is_seen_to_have_failed_before_it_is_removed() -> None:
    deletion: dict[str, Any] = {
        "deletionTimestamp": format_time(NOW),
        "deletionGracePeriodSeconds": 30,
        "finalizers": ("x/y",),
    }
    running = after(bound_pod(), Behaviour(), NOW - 50)
    stopped = after(replace(running, metadata=bound_pod(**deletion).metadata), Behaviour(), NOW)
    assert stopped.status.phase == "Failed"
    assert next_step(stopped, Behaviour(), PLACE, NOW) == Remove()


def test_an_active_deadline_fails_the_pod() -> None:
    pod = bound_pod()
    pod = after(replace(pod, spec=replace(pod.spec, activeDeadlineSeconds=20)), Behaviour(), NOW)
    assert next_step(pod, Behaviour(), PLACE, NOW + 5) == Wait(15)
    assert next_step(pod, Behaviour(run_seconds=8), PLACE, NOW + 5) == Wait(3)
    failed = after(pod, Behaviour(), NOW + 20)
    assert (failed.status.phase, failed.status.reason) == ("Failed", "DeadlineExceeded")


def test_init_containers_are_done_and_sidecars_run() -> None:
    pod = bound_pod()
    init = (Container(name="init"), Container(name="sidecar", restartPolicy="Always"))
    pod = after(replace(pod, spec=replace(pod.spec, initContainers=init)), Behaviour(), NOW)
    done, sidecar = pod.status.initContainerStatuses
    assert done.state.terminated is not None
    assert sidecar.state.running is not None


def test_a_pod_on_the_host_network_has_its_nodes_address() -> None:
    pod = bound_pod()
    pod = after(replace(pod, spec=replace(pod.spec, hostNetwork=True)), Behaviour(), NOW)
    assert pod.status.podIP == "172.16.0.1"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("bosket.dev/run-duration", "2 seconds"),
        ("bosket.dev/start-delay", "-1s"),
        ("bosket.dev/stop-delay", ""),
        ("bosket.dev/exit-code", "one"),
        ("bosket.dev/exit-code", "256"),
    ],
)
def test_an_annotation_without_meaning_is_named_with_its_value(annotation: str, value: str) -> None:
    with pytest.raises(InvalidBehaviour, match=f'{annotation}: "{value}"'):
        Behaviour.of({annotation: value})


def test_annotations_say_how_a_pod_behaves() -> None:
    annotations = {
        "bosket.dev/run-duration": "1m30s",
        "bosket.dev/exit-code": "7",
        "bosket.dev/start-delay": "500ms",
        "bosket.dev/stop-delay": "2s",
    }
    assert Behaviour.of(annotations) == Behaviour(90, 7, 0.5, 2)
    assert Behaviour.of({}) == Behaviour(None, 0, 0, 0)
