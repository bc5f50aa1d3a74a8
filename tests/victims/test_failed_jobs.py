"""A job that is no easier than one for which no victims were found isn't tried."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bosket.api.core.node import Node
from bosket.api.kai.podgroup import PodGroup
from bosket.api.object import KubeObject
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.solver.search import Search, Solution
from bosket.testing.build import PodBuilder, job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import configured, decided, evictions
from tests.scheduler.affinity import away, rather_away, spread, term

CLASSES = [priority_class("low", 10), priority_class("high", 90)]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Names of the jobs for which victims were searched for, in order."""
    names, solve = [], Search.solve

    def noted(search: Search) -> Solution | None:
        names.append(search._job.job.key.name)
        return solve(search)

    monkeypatch.setattr(Search, "solve", noted)
    return names


def full(*pending: Any, action: str = "preempt", **settings: Any) -> Any:
    """A node of 4 GPUs, full of a job that nobody may evict, beside one that everybody may and that isn't enough."""
    return decided(
        [node("n1", gpus=4), node("n2", gpus=1)],
        [queue("mine", quota=100), queue("other", quota=100), queue("theirs", quota=0, weight=0)],
        CLASSES,
        job("firm", 4, on="n1", queue="theirs", preemptibility="non-preemptible"),
        job("loose", on="n2", queue="mine" if action == "preempt" else "theirs", priority="low"),
        *pending,
        configuration=configured("allocate", action, **settings),
    )


def wants(name: str, size: int = 1, gpus: int = 2, **group: Any) -> list[KubeObject]:
    return job(name, size, gpus=gpus, **{"queue": "mine", "priority": "high", **group})


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_an_equal_job_is_not_tried_again(tried: Sequence[Any], action: str) -> None:
    full(wants("a"), wants("b"), wants("c"), action=action)
    assert tried == ["a"]


def test_every_job_is_tried_when_it_is_configured_so(tried: Sequence[Any]) -> None:
    full(wants("a"), wants("b"), use_scheduling_signatures=False)
    assert tried == ["a", "b"]


@pytest.mark.parametrize(
    ("second", "is_tried"),
    [
        pytest.param({"gpus": 3}, True, id="it asks for less"),
        pytest.param({"gpus": 5}, False, id="it asks for more"),
        pytest.param({"size": 1}, True, id="it has fewer pods"),
        pytest.param({"size": 3}, True, id="as in KAI, gangs are compared with those of their size only"),
    ],
)
def test_one_that_is_easier_is(tried: Sequence[Any], second: Mapping[str, int], is_tried: bool) -> None:
    full(wants("a", size=2, gpus=4), wants("b", **{"size": 2, "gpus": 4, **second}))
    assert tried == (["a", "b"] if is_tried else ["a"])


def test_the_smallest_that_failed_speaks_for_the_rest(tried: Sequence[Any]) -> None:
    full(wants("a", gpus=4), wants("b", gpus=2), wants("c", gpus=3))
    assert tried == ["a", "b"]


def test_one_that_nodes_treat_differently_is_tried(tried: Sequence[Any]) -> None:
    choosy = pod("b-0").gpu(2).of_group("b").only_on("kubernetes.io/hostname", "n1").build()
    full(wants("a"), [pod_group("b", queue="mine", priority="high"), choosy])
    assert tried == ["a", "b"]


def test_as_in_kai_one_that_is_not_preemptible_speaks_for_preemptible_ones(tried: Sequence[Any]) -> None:
    full(wants("a", preemptibility="non-preemptible"), wants("b"))
    assert tried == ["a"]


def test_as_in_kai_gpu_memory_is_not_compared(tried: Sequence[Any]) -> None:
    """One that asks for memory seems to ask for no GPU, so that who asks for a part of one has more to ask for."""
    memory = pod("a-0").gpu_memory(16000, devices=2).of_group("a").build()
    part = pod("b-0").shares_gpu(0.1, devices=2).of_group("b").build()
    groups = [pod_group(name, queue="mine", priority="high") for name in "ab"]
    full([*groups, memory, part])
    assert tried == ["a"]


def test_as_in_kai_a_job_is_compared_by_what_it_had_to_place_when_the_cycle_began(tried: Sequence[Any]) -> None:
    """One pod of `b` finds room, so that one is left, as of `a`; no eviction would help either of them."""
    decided(
        [node("n1", gpus=1), node("n2", gpus=1)],
        [queue("mine"), queue("theirs")],
        CLASSES,
        job("firm", on="n1", queue="theirs", preemptibility="non-preemptible"),
        job("loose", gpus=0, on="n1", queue="mine", priority="low"),
        wants("b", 2, gpus=1, min_member=1),
        wants("a", gpus=1),
        configuration=configured("allocate", "preempt"),
    )
    assert tried == ["a", "b"]


def test_queues_do_not_speak_for_each_other(tried: Sequence[Any]) -> None:
    full(wants("a"), wants("b", queue="other"), action="reclaim")
    assert tried == ["a", "b"]


def test_where_jobs_are_moved_one_speaks_for_all(tried: Sequence[Any]) -> None:
    """Enough GPUs are free, but none of the small jobs fits elsewhere."""
    decided(
        [node(f"n{i}", gpus=4) for i in range(3)],
        [queue("mine"), queue("other")],
        [each for i in range(3) for each in job(f"on{i}", gpus=3, on=f"n{i}", queue="other")],
        job("a", gpus=2, queue="mine"),
        job("b", gpus=2, queue="other"),
        configuration=configured("allocate", "consolidation"),
    )
    assert tried == ["a"]


def test_one_that_was_successful_says_nothing_about_others(tried: Sequence[Any]) -> None:
    decisions = decided(
        node("n1", gpus=2),
        [queue("mine", quota=2), queue("theirs", quota=0, weight=0)],
        [each for i in range(2) for each in job(f"loose{i}", on="n1", queue="theirs")],
        [*job("a", queue="mine"), *job("b", queue="mine")],
        configuration=configured("allocate", "reclaim"),
    )
    assert tried == ["a", "b"]
    assert evictions(decisions) == {"loose1-0": "a", "loose0-0": "b"}


def test_a_gang_that_lost_its_members_in_this_cycle_is_not_tried_and_speaks_for_nobody(tried: Sequence[Any]) -> None:
    """`gang` is reclaimed from; what waits of it doesn't make a gang. `mid` still gets the place of `low`."""
    decisions = decided(
        node("n1", gpus=4),
        [queue("mine", quota=3), queue("theirs", quota=0, weight=0)],
        CLASSES,
        job("low", on="n1", queue="theirs", priority="low"),
        job("gang", 4, min_member=3, on=["n1"] * 3, queue="theirs", priority="high"),
        job("mid", queue="theirs"),
        job("new", 3, queue="mine"),
        configuration=configured("allocate", "reclaim", "preempt"),
    )
    assert tried == ["new", "mid"]
    assert evictions(decisions) == {"gang-0": "new", "gang-1": "new", "gang-2": "new", "low-0": "mid"}


@pytest.mark.parametrize(
    ("second", "labels", "is_tried"),
    [
        pytest.param({"app": "b"}, {}, False, id="each is spread by a label of its own"),
        pytest.param({"app": "b", "skew": 2}, {}, True, id="the other may be less even"),
        pytest.param({"app": "b"}, {"also": "a"}, True, id="the other is selected by somebody else as well"),
    ],
)
def test_jobs_that_select_themselves_alone_are_alike_whatever_their_labels(
    tried: Sequence[Any], second: Mapping[str, Any], labels: Mapping[str, Any], is_tried: bool
) -> None:
    def spreading(name: str, app: str, skew: int = 1, **more: str) -> list[KubeObject]:
        made = pod(f"{name}-0").gpu(2).label("app", app).of_group(name)
        for key, value in more.items():
            made = made.label(key, value)
        constraint = spread("kubernetes.io/hostname", skew, app=app)
        return [
            pod_group(name, queue="mine", priority="high"),
            made.with_spec(topologySpreadConstraints=(constraint,)).build(),
        ]

    selecting = pod("z-0").gpu(2).of_group("z").with_spec(affinity=rather_away(1, term(also="a"))).build()
    full(
        spreading("a", "a"),
        spreading("b", **second, **labels),
        [pod_group("z", queue="mine", priority="high"), selecting],
    )
    assert ("b" in tried) == is_tried


def mine(name: str, **group: Any) -> PodGroup:
    return pod_group(name, queue="mine", priority="high", **group)


def keeping_away(name: str, group: str, app: str, **labels: Any) -> PodBuilder:
    """A pod that keeps away from others with its label."""
    made = pod(name).gpu(1).label("app", app).of_group(group)
    for key, value in labels.items():
        made = made.label(key, value)
    return made.with_spec(affinity=away(term(app=app)))


def preempting(*objects: Node | Sequence[KubeObject]) -> Decisions:
    return decided(queue("mine", quota=100), CLASSES, *objects, configuration=configured("allocate", "preempt"))


def test_a_job_whose_pods_others_keep_away_from_does_not_speak_for_one_that_nobody_minds() -> None:
    firm = pod("firm-0").gpu(0).of_group("firm").with_spec(affinity=away(term(app="a"))).running_on("n1").build()
    decisions = preempting(
        node("n1", gpus=1),
        [mine("firm", preemptibility="non-preemptible"), firm],
        job("loose", on="n1", queue="mine", priority="low"),
        *([mine(name), keeping_away(f"{name}-0", name, name).build()] for name in ("a", "b")),
    )
    assert evictions(decisions) == {"loose-0": "b"}


def test_a_gang_whose_pods_keep_away_from_each_other_does_not_speak_for_one_whose_pods_do_not() -> None:
    def pair(name: str, *apps: str) -> list[KubeObject]:
        pods = [keeping_away(f"{name}-{i}", name, app).cpu(str(i + 1)).build() for i, app in enumerate(apps)]
        return [mine(name, min_member=2), *pods]

    decisions = preempting(
        node("n1", gpus=2),
        [each for i in range(2) for each in job(f"loose{i}", on="n1", queue="mine", priority="low")],
        pair("a", "a", "a"),
        pair("b", "b0", "b1"),
    )
    assert evictions(decisions) == {"loose0-0": "b", "loose1-0": "b"}


def test_a_job_with_pods_that_got_a_place_in_this_cycle_does_not_speak_for_one_whose_pods_got_another() -> None:
    def elastic(name: str) -> list[KubeObject]:
        return [mine(name, min_member=1), *(keeping_away(f"{name}-{i}", name, name).build() for i in range(2))]

    decisions = preempting(
        [node("n1", gpus=2), node("n2", gpus=1)],
        job("loose", on="n1", queue="mine", priority="low"),
        elastic("a"),
        elastic("b"),
    )
    assert evictions(decisions) == {"loose-0": "b"}
