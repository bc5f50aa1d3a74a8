"""As few pods move as it takes, and no more jobs than are allowed."""

import pytest

from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import Objects, configured, decided, evictions, pipelines


def fragmented(*held: int, gpus: int = 8) -> list[Objects]:
    """Nodes n0, n1… with so many one-GPU jobs on each."""
    nodes = [node(f"n{i}", gpus=gpus) for i in range(len(held))]
    jobs = [each for i, count in enumerate(held) for j in range(count) for each in job(f"on{i}-{j}", on=f"n{i}")]
    return [nodes, queue("q"), jobs]


def test_the_node_that_is_the_cheapest_to_empty_is_emptied() -> None:
    decisions = decided(
        *fragmented(5, 1, 4, 6), job("new", gpus=8), configuration=configured("allocate", "consolidation")
    )
    assert evictions(decisions) == {"on1-0-0": "new"}
    assert pipelines(decisions)["new-0"] == "n1"


def test_of_a_node_no_more_moves_than_must() -> None:
    """`new` wants 4: on n0 there are 2 free and two jobs of 2 on it, on n1 three of 1."""
    decisions = decided(
        [node("n0", gpus=6), node("n1", gpus=4), node("n2", gpus=3)],
        queue("q"),
        [*job("a", gpus=2, on="n0"), *job("b", gpus=2, on="n0")],
        [each for i in range(3) for each in job(f"c{i}", on="n1")],
        job("new", gpus=4),
        configuration=configured("allocate", "consolidation"),
    )
    assert len(evictions(decisions)) == 1
    assert pipelines(decisions)["new-0"] == "n0"


def test_a_gang_has_as_few_nodes_emptied_as_it_has_pods() -> None:
    decisions = decided(
        *fragmented(6, 2, 5, 1, 7, 3, 6), job("new", 2, gpus=8), configuration=configured("allocate", "consolidation")
    )
    assert sorted(evictions(decisions)) == ["on1-0-0", "on1-1-0", "on3-0-0"]


@pytest.mark.parametrize(("bound", "moved"), [(0, 0), (1, 0), (2, 2), (16, 2), (-1, 2)])
def test_no_more_jobs_move_than_the_bound_says(bound: int, moved: int) -> None:
    decisions = decided(
        *fragmented(2, 2, 3),
        job("new", gpus=8),
        configuration=configured("allocate", "consolidation", max_consolidation_preemptees=bound),
    )
    assert len(evictions(decisions)) == moved


def test_the_bound_counts_those_that_move_not_those_that_are_looked_at() -> None:
    """The one job that can move is the most important of three; the bound is one."""
    decisions = decided(
        [node("n0", gpus=2), node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=1)],
        queue("q"),
        job("only", on="n0"),
        [*job("x", gpus=2, on="n1"), *job("y", gpus=2, on="n2")],
        job("new", gpus=2),
        configuration=configured("allocate", "consolidation", max_consolidation_preemptees=1),
    )
    assert evictions(decisions) == {"only-0": "new"}


def test_on_a_node_without_gpus_the_one_that_makes_the_most_room_moves() -> None:
    """`new` lacks 6 cores on n1: one job of 6 moves, not three of 2."""
    small = [pod(f"a{i}-0").cpu("2").of_group(f"a{i}").running_on("n1").build() for i in range(3)]
    decisions = decided(
        [node("n1", gpus=0, cpu="12"), node("n2", gpus=0, cpu="7")],
        queue("q"),
        [pod_group("z"), *(pod_group(f"a{i}") for i in range(3)), pod_group("new")],
        [pod("z-0").cpu("6").of_group("z").running_on("n1").build(), *small],
        pod("new-0").cpu("6").of_group("new").only_on("kubernetes.io/hostname", "n1").build(),
        configuration=configured("allocate", "consolidation"),
    )
    assert evictions(decisions) == {"z-0": "new"}
