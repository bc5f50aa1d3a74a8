"""What the demo holds against the scheduler: each promise, kept and broken."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from bosket.api.object import ObjectMeta
from bosket.cli.demo.observation import Observation, outcome, states
from bosket.cli.demo.story import GANGS, SERVER, TEAMS, Gang, Team, job, queues

TEAM = Team("t", quota=4, limit=4)
GANG = Gang("g", "t", pods=2, gpus_per_pod=2, run_seconds=1)


def pod(name: str, *, node: str = "", phase: str = "Pending", gpus: int = 2, reason: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, labels={"kai.scheduler/queue": "t", "bosket.dev/demo": "g"}),
        spec=PodSpec(
            nodeName=node,
            containers=(Container(name="c", resources=ResourceRequirements(requests={"nvidia.com/gpu": gpus})),),
        ),
        status=PodStatus(phase=phase, reason=reason),
    )


class Course:
    """Feeds an observation with the pods of one gang."""

    def __init__(self) -> None:
        self.observation = Observation((GANG,), (TEAM,), {"n": 4, "m": 4})
        self._pods: dict[str, Pod] = {}

    def see(self, seen: Pod, at: float) -> None:
        self.observation.pod_changed(self._pods.get(seen.metadata.uid), seen, at)
        self._pods[seen.metadata.uid] = seen

    def violations(self) -> list[str]:
        return [violation for promise in self.observation.promises() for violation in promise.violations]


def test_a_gang_that_waits_and_then_runs_keeps_all_promises() -> None:
    course = Course()
    course.observation.submitted("g", 0.0)
    for name in "ab":
        course.see(pod(name), 0.1)
    assert course.observation.pods("t") == (0, 2)
    assert states(course.observation)["waiting"] == ["g"]
    for name, at in (("a", 5.0), ("b", 5.2)):
        course.see(pod(name, node="n"), at)
        course.see(pod(name, node="n", phase="Running"), at + 0.1)
    assert course.observation.pods("t") == (2, 0)
    assert course.observation.gpus("t") == 4
    for name in "ab":
        course.see(pod(name, node="n", phase="Succeeded"), 8.0)
    course.observation.finished("g", 8.3, failed=False)
    record = course.observation.gangs["g"]
    assert record.waited_seconds == pytest.approx(5.3)
    assert record.ran_seconds == pytest.approx(3.0)
    assert record.state == "succeeded"
    assert course.observation.gpus("t") == 0
    assert course.observation.all_finished
    assert course.violations() == []


def test_a_gang_of_which_only_a_part_was_bound_is_a_broken_promise() -> None:
    course = Course()
    course.see(pod("a", node="n"), 1.0)
    course.see(pod("b"), 1.0)
    assert course.violations() == ["g: 1 of 2 pods were bound"]


def test_a_gang_that_was_bound_piecemeal_is_a_broken_promise() -> None:
    course = Course()
    course.see(pod("a", node="n"), 1.0)
    course.see(pod("b", node="n"), 11.0)
    assert course.violations() == ["g: its pods were bound over 10.0 s"]


def test_a_queue_over_its_limit_is_a_broken_promise_even_if_it_was_short() -> None:
    course = Course()
    course.see(pod("a", node="n", gpus=4), 1.0)
    course.see(pod("b", node="m", gpus=1), 1.0)
    course.see(pod("b", node="m", gpus=1, phase="Succeeded"), 1.1)
    assert course.violations() == ["queue t used 5 GPUs, its limit is 4"]


def test_a_node_over_its_capacity_is_a_broken_promise() -> None:
    course = Course()
    course.observation.teams = ()
    course.see(pod("a", node="n", gpus=3), 1.0)
    course.see(pod("b", node="n", gpus=2), 1.0)
    assert course.violations() == ["pods on n hold 5 GPUs, it has 4"]


def test_a_pod_that_its_node_refused_is_a_broken_promise() -> None:
    course = Course()
    refused = replace(
        pod("a", node="n", phase="Failed", reason="OutOfcpu"),
        status=PodStatus(phase="Failed", reason="OutOfcpu", message="no room"),
    )
    course.see(pod("a"), 0.5)
    course.see(pod("b", node="n"), 1.0)
    course.see(refused, 1.0)
    assert course.violations() == ["n refused a: no room"]


def test_the_outcome_has_everything_a_script_may_ask_for() -> None:
    course = Course()
    course.observation.submitted("g", 0.0)
    told = outcome(course.observation, 1.5)
    assert told["seconds"] == 1.5
    assert told["jobs"][0] == {
        "name": "g",
        "queue": "t",
        "pods": 2,
        "gpus": 4,
        "waitedSeconds": None,
        "ranSeconds": None,
        "result": "waiting",
    }
    assert [promise["kept"] for promise in told["promises"]] == [True, True, True]


def test_the_story_asks_for_more_than_there_is_and_each_part_fits_alone() -> None:
    limits = {team.name: team.limit for team in TEAMS}
    assert sum(gang.gpus for gang in GANGS) > 64
    for gang in GANGS:
        assert gang.gpus <= (limits[gang.team] or 64)
    first = [gang for gang in GANGS if gang.submit_at_seconds == 0]
    assert sum(gang.gpus for gang in first) + SERVER.replicas * SERVER.gpus_per_pod == 64
    assert {queue.spec.parentQueue for queue in queues()} == {"", "research"}
    assert job(GANGS[0]).metadata.annotations["kai.scheduler/batch-min-member"] == str(GANGS[0].pods)
