"""The judge of `benchmarks chaos` notices every breach that it is there for, and says nothing of a sound cluster."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.chaos.judge import GPU, LATE_SECONDS, PARTIAL_SECONDS, UNSURE_SECONDS, Json, Judge, amount


def node(name: str = "n", gpus: int = 8) -> Json:
    return {"metadata": {"name": name}, "status": {"allocatable": {GPU: str(gpus), "cpu": "64", "pods": "110"}}}


def pod(name: str, *, node: str = "", gpus: int = 1, group: str = "g", ready: bool = True, **metadata: Any) -> Json:
    resources = {"requests": {GPU: str(gpus)}} if gpus else {}
    annotations = {"pod-group-name": group, **metadata.pop("annotations", {})}
    meta = {"name": name, "namespace": "ml", "uid": name, "annotations": annotations, "labels": {}, **metadata}
    conditions = [{"type": "Ready", "status": "True"}] if ready and node else []
    return {
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [{"resources": resources}]},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }


def group(name: str = "g", minimum: int = 1, queue: str = "q", priority: str = "train") -> Json:
    spec = {"minMember": minimum, "queue": queue, "priorityClassName": priority}
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def queue(name: str = "q", *, quota: float = 0, limit: float = -1, parent: str = "") -> Json:
    spec = {"parentQueue": parent, "resources": {"gpu": {"quota": quota, "limit": limit}}}
    return {"metadata": {"name": name}, "spec": spec}


def budget(minimum: int) -> Json:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}
    return {"metadata": {"name": "b", "namespace": "ml"}, "spec": spec}


@pytest.fixture
def judge() -> Judge:
    judge = Judge()
    judge.see("Node", "ADDED", node(), 0)
    judge.see("Queue", "ADDED", queue(), 0)
    judge.see("PodGroup", "ADDED", group(), 0)
    return judge


def test_quantities_are_numbers() -> None:
    assert [amount(each) for each in ("1500m", "2", "1Ki", "3k")] == [amount("1.5"), 2, 1024, 3000]


def test_a_sound_cluster_breaks_nothing(judge: Judge) -> None:
    for number in range(8):
        judge.see("Pod", "ADDED", pod(f"p{number}"), 1)
        judge.see("Pod", "MODIFIED", pod(f"p{number}", node="n"), 2)
    judge.tick(1000)
    assert (judge.broken, judge.at_rest()) == ([], [])
    assert judge.counts["bindings"] == 8


def test_a_node_that_is_given_more_than_it_has(judge: Judge) -> None:
    judge.see("Pod", "ADDED", pod("a", node="n", gpus=5), 1)
    judge.see("Pod", "ADDED", pod("b", node="n", gpus=4), 1)
    assert judge.broken == ["node n has 8 nvidia.com/gpu, and pods bound to it ask for 9"]


def test_what_a_new_list_shows_was_so_at_one_moment(judge: Judge) -> None:
    """However it is ordered: who came may stand in it before those who went or ended for it."""
    for name in ("old", "older"):
        judge.see("Pod", "ADDED", pod(name, node="n", gpus=4), 1)
    ended = {**pod("old", node="n", gpus=4), "status": {"phase": "Succeeded"}}
    new = pod("new", node="n", gpus=8)
    judge.see_list("Pod", [pod("older", node="n", gpus=4)], [new, ended], 2)
    assert judge.broken == []
    judge.see_list("Pod", [], [pod("newer", node="n")], 3)
    assert judge.broken == [f"node n has 8 {GPU}, and pods bound to it ask for 9"]


def test_what_ended_holds_nothing(judge: Judge) -> None:
    ended = pod("a", node="n", gpus=5)
    ended["status"]["phase"] = "Succeeded"
    judge.see("Pod", "ADDED", ended, 1)
    judge.see("Pod", "ADDED", pod("b", node="n", gpus=8), 1)
    assert judge.broken == []


def test_a_pod_that_moves(judge: Judge) -> None:
    judge.see("Pod", "ADDED", pod("a", node="n"), 1)
    judge.see("Pod", "MODIFIED", pod("a", node="other"), 2)
    assert "pod ml/a moved from n to other" in judge.broken


def test_a_gpu_that_is_shared_out_twice(judge: Judge) -> None:
    for name in ("a", "b"):
        share: dict[str, Any] = {"annotations": {"gpu-fraction": "0.6"}, "labels": {"runai-gpu-group": "x"}}
        judge.see("Pod", "ADDED", pod(name, node="n", gpus=0, **share), 1)
    assert "GPU group x on node n is shared out 1.2 times" in judge.broken
    assert judge.at_rest() == ["shared GPU x on n is used and not reserved"]


def test_a_queue_above_its_limit_and_one_above_it_in_the_tree(judge: Judge) -> None:
    judge.see("Queue", "ADDED", queue("top", limit=3), 0)
    judge.see("Queue", "ADDED", queue("q", limit=4, parent="top"), LATE_SECONDS + 1)
    at = 3 * LATE_SECONDS
    judge.see("Pod", "ADDED", pod("a", node="n", gpus=4), at)
    judge.tick(at + UNSURE_SECONDS + 1)
    assert judge.broken == ["queue top has a limit of 3 GPUs and holds 4"]


def test_a_limit_that_was_lowered_a_moment_ago_does_not_count_yet(judge: Judge) -> None:
    judge.see("Queue", "MODIFIED", queue(limit=1), 100)
    judge.see("Pod", "ADDED", pod("a", node="n", gpus=2), 100 + LATE_SECONDS / 2)
    judge.tick(99 + 2 * LATE_SECONDS + UNSURE_SECONDS)
    assert judge.broken == []
    judge.see("Pod", "ADDED", pod("b", node="n", gpus=1), 101 + 2 * LATE_SECONDS)
    judge.tick(102 + 2 * LATE_SECONDS + UNSURE_SECONDS)
    assert judge.broken == ["queue q has a limit of 1 GPUs and holds 3"]


@pytest.mark.parametrize(
    ("raised", "limit", "is_breach"),
    [
        pytest.param("6", 2, False, id="before, seen only now"),
        pytest.param("8", 2, True, id="afterwards"),
        pytest.param("", 2, False, id="nobody saw when"),
        pytest.param("6", 1, True, id="not far enough"),
    ],
)
def test_a_limit_that_was_raised_counts_from_then_on(judge: Judge, raised: str, limit: int, is_breach: bool) -> None:
    judge.see("Queue", "MODIFIED", queue(limit=1), 0)
    at = 2 * LATE_SECONDS
    judge.see("Pod", "ADDED", pod("a", node="n", gpus=2, resourceVersion="7"), at)
    changed = queue(limit=limit)
    judge.see("Queue", "MODIFIED", {**changed, "metadata": {**changed["metadata"], "resourceVersion": raised}}, at + 1)
    judge.tick(at + 2 + UNSURE_SECONDS)
    assert judge.broken == (["queue q has a limit of 1 GPUs and holds 2"] if is_breach else [])


def test_non_preemptible_work_above_the_quota(judge: Judge) -> None:
    judge.see("PodGroup", "MODIFIED", group(priority="build"), 0)
    judge.see("Pod", "ADDED", pod("a", node="n"), 1)
    judge.tick(2 + UNSURE_SECONDS)
    assert judge.broken == ["queue q has a quota of 0 GPUs and non-preemptible pods hold 1"]


def test_a_gang_that_stays_in_part(judge: Judge) -> None:
    judge.see("PodGroup", "MODIFIED", group(minimum=2), 0)
    judge.see("Pod", "ADDED", pod("a", node="n"), 1)
    judge.tick(PARTIAL_SECONDS)
    assert judge.broken == []
    assert judge.at_rest() == ["gang ml/g rests with 1 of 2 pods"]
    judge.tick(2 + PARTIAL_SECONDS)
    assert judge.broken == [f"gang ml/g has been bound in part, 1 of 2, for {1 + PARTIAL_SECONDS:.0f} s"]


BREACH = "pod ml/a was evicted, and 1 of 2 are left that budget ml/b wants"


def evicted_under_a_budget(judge: Judge, version: str) -> None:
    labels = {"app": "web"}
    judge.see("PodDisruptionBudget", "ADDED", budget(2), 0)
    for name in ("a", "b"):
        judge.see("Pod", "ADDED", pod(name, node="n", labels=labels), 1)
    ending = pod("a", node="n", labels=labels, deletionTimestamp="now", resourceVersion=version)
    judge.see("Pod", "MODIFIED", ending, 2)


def test_an_eviction_that_a_budget_forbids(judge: Judge) -> None:
    evicted_under_a_budget(judge, "7")
    assert judge.at_rest()[0] == BREACH
    judge.tick(3 + UNSURE_SECONDS)
    assert judge.broken == [BREACH]


@pytest.mark.parametrize(
    ("budget_went", "is_breach"),
    [
        pytest.param("6", False, id="before, seen only now"),
        pytest.param("8", True, id="afterwards"),
        pytest.param("", False, id="nobody saw when"),
    ],
)
def test_a_budget_guards_nothing_once_it_is_gone(judge: Judge, budget_went: str, is_breach: bool) -> None:
    evicted_under_a_budget(judge, "7")
    gone = budget(2)
    judge.see(
        "PodDisruptionBudget", "DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": budget_went}}, 3
    )
    judge.tick(4 + UNSURE_SECONDS)
    assert judge.broken == ([BREACH] if is_breach else [])


def test_what_still_waits_or_ends_when_all_is_at_rest(judge: Judge) -> None:
    judge.see("Pod", "ADDED", pod("a"), 1)
    judge.see("Pod", "ADDED", pod("b", node="n", deletionTimestamp="now"), 1)
    assert judge.at_rest() == [
        "pod ml/a still waits, on no node: no condition",
        "pod ml/b has been ending for too long",
    ]


def test_a_reservation_that_nobody_uses(judge: Judge) -> None:
    labels = {"runai-gpu-group": "x"}
    judge.see("Pod", "ADDED", pod("r", node="n", namespace="kai-resource-reservation", labels=labels), 1)
    assert judge.at_rest() == ["shared GPU x on n is reserved and not used"]
