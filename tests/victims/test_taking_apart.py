"""How a job is taken apart: extras one at a time, then sub-groups that it can do without, then all that is left."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bosket.api.core.pod import Pod
from bosket.api.kai import SubGroup
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.solver.eviction import Victim, next_to_evict, victim_of
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import snapshot_of


def steps(*objects: Any, stays: Sequence[str] = ()) -> list[list[str]]:
    """The names of the pods that go, step by step, until nothing is left of the only job, or nobody may go.

    Steps in which one of those would go that `stays` names can't be taken.
    """
    snapshot = snapshot_of([node("n1", gpus=64), queue("q")], *objects)
    session = open_session(snapshot, Configuration())
    (found,) = snapshot.jobs.values()
    victim: Victim | None = victim_of(session.jobs.state(found))
    result: list[list[str]] = []
    while victim is not None:
        if not (tasks := next_to_evict(session, victim)):
            break
        names = [task.key.name.removeprefix("g-") for task in tasks]
        if set(names).isdisjoint(stays):
            result.append(names)
            victim = victim.without(tasks)
        else:
            victim = victim.keeping(tasks)
    return result


def test_a_gang_goes_as_a_whole() -> None:
    assert steps(pod_group("g", min_member=3), gang("g", 3, on="n1")) == [["2", "1", "0"]]


def test_extras_go_one_at_a_time_the_last_first() -> None:
    assert steps(pod_group("g", min_member=2), gang("g", 4, on="n1")) == [["3"], ["2"], ["1", "0"]]


def test_an_extra_that_cannot_go_counts_for_the_minimum_which_the_others_keep_with_it() -> None:
    assert steps(pod_group("g", min_member=2), gang("g", 4, on="n1"), stays=["3"]) == [["2"], ["1"]]
    assert steps(pod_group("g", min_member=2), gang("g", 3, on="n1"), stays=["2", "1"]) == [["0"]]
    assert steps(pod_group("g", min_member=2), gang("g", 2, on="n1"), stays=["0"]) == []


def test_a_sub_group_of_which_somebody_stays_is_not_taken_apart_below_its_minimum() -> None:
    group = pod_group("g", subgroups=subgroups(a=2, b=2, c=2), min_subgroup=2)
    assert steps(group, members(a=2, b=2, c=3), stays=["c-2"]) == [["c-1"], ["b-1", "b-0"]]
    assert steps(pod_group("g", subgroups=subgroups(a=1, b=1)), members(a=2, b=1), stays=["a-1"]) == [["a-0"]]


def test_a_job_without_a_minimum_goes_one_by_one() -> None:
    assert steps(pod_group("g", min_member=0), gang("g", 3, on="n1")) == [["2"], ["1"], ["0"]]


def test_a_job_that_is_below_its_minimum_already_goes_at_once() -> None:
    assert steps(pod_group("g", min_member=3), gang("g", 2, on="n1")) == [["1", "0"]]


def test_pods_that_wait_are_not_taken() -> None:
    assert steps(pod_group("g", min_member=1), gang("g", 3, on=["n1", "n1"])) == [["1"], ["0"]]


def test_the_task_order_decides_which_extra_goes_first() -> None:
    """A pod with a higher task priority stays longer."""
    important = pod("g-9").gpu(1).of_group("g").label("kai.scheduler/task-priority", "5").running_on("n1").build()
    assert steps(pod_group("g", min_member=1), gang("g", 2, on="n1"), important) == [["1"], ["0"], ["9"]]


def subgroups(**minima: int) -> tuple[SubGroup, ...]:
    return tuple(SubGroup(name=name, minMember=minimum) for name, minimum in minima.items())


def members(**sizes: int) -> list[Pod]:
    return [each for name, size in sizes.items() for each in gang("g", size, on="n1", subgroup=name)]


def test_sub_groups_of_which_all_are_needed_go_together() -> None:
    assert steps(pod_group("g", subgroups=subgroups(a=1, b=2)), members(a=1, b=2)) == [["a-0", "b-1", "b-0"]]


def test_extras_of_sub_groups_go_first_beginning_where_there_are_the_most_for_the_minimum() -> None:
    """`a` runs three times its minimum, `b` one and a half times."""
    assert steps(pod_group("g", subgroups=subgroups(a=1, b=2)), members(a=3, b=3)) == [
        ["a-2"], ["a-1"], ["b-2"], ["a-0", "b-1", "b-0"]
    ]  # fmt: skip


def test_a_sub_group_too_many_goes_as_a_whole_after_all_extras() -> None:
    group = pod_group("g", subgroups=subgroups(a=2, b=2, c=2), min_subgroup=2)
    assert steps(group, members(a=2, b=2, c=3)) == [["c-2"], ["c-1", "c-0"], ["a-1", "a-0", "b-1", "b-0"]]


def test_sub_groups_without_a_minimum_are_extras_altogether() -> None:
    group = pod_group("g", subgroups=subgroups(a=1, b=0))
    assert steps(group, members(a=1, b=2)) == [["b-1"], ["b-0"], ["a-0"]]


def test_nested_sub_groups_are_taken_apart_from_the_inside() -> None:
    """Of the set `s` one of its two sub-groups is enough; the root needs both `s` and `x`."""
    group = pod_group(
        "g",
        subgroups=(
            SubGroup(name="s", minSubGroup=1),
            SubGroup(name="a", parent="s", minMember=1),
            SubGroup(name="b", parent="s", minMember=1),
            SubGroup(name="x", minMember=1),
        ),
    )
    assert steps(group, members(a=1, b=2, x=1)) == [["b-1"], ["b-0"], ["a-0", "x-0"]]


@pytest.mark.parametrize("order", [lambda pods: pods, lambda pods: pods[::-1]])
def test_the_order_in_which_pods_are_seen_changes_nothing(order: Callable[..., Any]) -> None:
    assert steps(pod_group("g", min_member=1), order(gang("g", 4, on="n1"))) == [["3"], ["2"], ["1"], ["0"]]
