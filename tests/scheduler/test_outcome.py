"""What became of a cycle: where every pod stands, what is said of pod groups, and all of it as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bosket.api.kai import PodGroup, PodGroupStatus, SchedulingCondition
from bosket.api.object import KubeObject
from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, reasons, snapshot_of

CALLED_UNSCHEDULABLE = SchedulingCondition(type="UnschedulableOnNodePool", nodePool="default", transitionID="1")


def answer_to(*objects: KubeObject | Sequence[KubeObject]) -> dict[str, Any]:
    snapshot = snapshot_of(*objects)
    return answer(snapshot, decide(snapshot, Configuration()))


def with_condition(group: PodGroup) -> PodGroup:
    return replace(group, status=PodGroupStatus(schedulingConditions=(CALLED_UNSCHEDULABLE,)))


def test_the_answer_has_binds_pipelines_groups_and_shares() -> None:
    got = answer_to(
        [node("n1", gpus=1), node("n2", gpus=1)],
        queue("q", quota=1),
        [pod_group("old"), pod_group("a"), pod_group("b"), pod_group("c")],
        pod("old-0").gpu(1).of_group("old").running_on("n2").being_deleted_at(NOW).build(),
        *(gang(name, 1) for name in "abc"),
    )
    assert got["binds"] == [
        {"pod": "default/a-0", "node": "n1", "type": "Regular", "gpuCount": 1, "gpuPortion": "1.00"}
    ]
    assert got["pipelined"] == [{"pod": "default/b-0", "node": "n2", "action": "allocate"}]
    assert got["evictions"] == []
    assert got["podGroups"] == {
        "default/a": {"pods": {"Binding": 1}, "started": True},
        "default/b": {"pods": {"Pipelined": 1}},
        "default/c": {
            "pods": {"Pending": 1},
            "condition": "UnschedulableOnNodePool",
            "reasons": ["PodSchedulingErrors"],
        },
        "default/old": {"pods": {"Releasing": 1}},
    }
    assert got["fairShare"]["q"]["gpu"] == 2


def test_a_job_of_which_something_runs_is_not_called_unschedulable() -> None:
    objects = [
        node("n1", gpus=1),
        queue("q"),
        pod_group("g"),
        pod("g-0").gpu(1).of_group("g").running_on("n1").build(),
        pod("g-1").gpu(1).of_group("g").build(),
    ]
    (waiting,) = decided(objects).waiting
    assert waiting.active
    assert waiting.reasons
    assert answer_to(objects)["podGroups"]["default/g"] == {"pods": {"Pending": 1, "Running": 1}}


def test_conditions_stay_until_the_pods_are_bound() -> None:
    waiting = with_condition(pod_group("waiting", min_member=3))
    placed, bound = with_condition(pod_group("placed")), with_condition(pod_group("bound"))
    decisions = decided(
        node("n1", gpus=2),
        queue("q"),
        [waiting, placed, bound],
        gang("waiting", 3),
        gang("placed", 1),
        pod("bound-0").gpu(1).of_group("bound").running_on("n1").build(),
    )
    assert [job.key.name for job in decisions.placed] == ["placed"]
    assert [job.key.name for job in decisions.settled] == ["bound"]


def test_a_gang_that_misses_pods_says_so_before_anything_about_its_queue() -> None:
    decisions = decided(node("n1"), queue("q"), pod_group("g", min_member=2, queue="nowhere"), gang("g", 1))
    assert reasons(decisions)["g"].startswith("Job is not ready for scheduling")


def test_what_kai_has_no_code_for_has_a_sentence_and_no_code() -> None:
    got = decided(
        node("n1"),
        [queue("q"), queue("child", parent="q")],
        [pod_group("inner"), pod_group("gated", min_member=0, queue="child")],
        gang("inner", 1),
        pod("gated-0").of_group("gated").gated_by("somebody").build(),
    )
    assert {each.job.key.name: each.reasons[0].code for each in got.waiting} == {"inner": "", "gated": ""}
    assert reasons(got)["gated"] == "1 pods wait for their scheduling gates to be lifted"
