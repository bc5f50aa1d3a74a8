"""What a search decides: in which order, for whom, and never for somebody who can't start then."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bosket.api.kai import SubGroup
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import TaskStatus
from bosket.testing.build import gang, job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import (
    NOW,
    configured,
    decided,
    evictions,
    pipelines,
    placements,
    reasons,
    snapshot_of,
    state_of,
)


def operations(decisions: Decisions) -> list[tuple[type[Any], str, str]]:
    return [(type(each), each.task.key.name, each.node) for each in decisions.operations]


def test_operations_stand_in_the_order_in_which_they_were_decided() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        [*job("a", on="n1"), *job("b", on="n2")],
        job("first", gpus=2),
        job("last", gpus=0),
        configuration=configured("allocate", "consolidation"),
    )
    assert operations(decisions) == [
        (Bind, "last-0", "n1"),
        (Eviction, "b-0", "n2"),
        (Pipeline, "b-0", "n1"),
        (Pipeline, "first-0", "n2"),
    ]


def test_a_job_that_was_placed_in_this_cycle_may_lose_its_place_again() -> None:
    """`loose` is allocated what `owner` can't use as it is; reclaim then gives it to `owner`."""
    decisions = decided(
        [node("n1", gpus=1), node("n2", gpus=1)],
        [queue("theirs", quota=0, weight=0), queue("mine", quota=2)],
        job("old", on="n1", queue="theirs"),
        job("owner", 2, queue="mine"),
        job("loose", queue="theirs"),
        configuration=configured("allocate", "reclaim"),
    )
    assert placements(decisions) == {"loose-0": "n2"}
    assert evictions(decisions) == {"loose-0": "owner", "old-0": "owner"}
    assert sorted(pipelines(decisions)) == ["owner-0", "owner-1"]


def test_nobody_is_evicted_for_a_gang_of_which_a_sub_group_stays_below_its_minimum() -> None:
    """One sub-group would be enough for the gang, but only one of them could have its minimum."""
    parts = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=2))
    decisions = decided(
        node("n1", gpus=1),
        [queue("theirs", quota=0, weight=0), queue("mine", quota=3)],
        job("old", on="n1", queue="theirs"),
        pod_group("new", queue="mine", subgroups=parts, min_subgroup=1),
        [*gang("new", 1, subgroup="a"), *gang("new", 2, subgroup="b")],
        configuration=configured("allocate", "reclaim"),
    )
    assert evictions(decisions) == {}


PARTS = tuple(SubGroup(name=name, minMember=minimum) for name, minimum in (("a", 2), ("b", 2), ("c", 0), ("d", 0)))


@pytest.mark.parametrize(("min_subgroup", "served"), [(None, 4), (4, 0)])
def test_nobody_is_evicted_for_a_gang_of_which_sub_groups_are_left_out(min_subgroup: int | None, served: int) -> None:
    """As in KAI: where the group says how many sub-groups are enough, those without pods stand in for others."""
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        [queue("theirs", quota=0, weight=0), queue("mine", quota=4)],
        [each for i in range(4) for each in job(f"old{i}", on=f"n{i % 2 + 1}", queue="theirs")],
        pod_group("new", queue="mine", subgroups=PARTS, min_subgroup=min_subgroup),
        [*gang("new", 2, subgroup="a"), *gang("new", 2, subgroup="b")],
        configuration=configured("allocate", "reclaim"),
    )
    assert len(evictions(decisions)) == len(pipelines(decisions)) == served


def one_of_two(
    *others: KubeObject, remembered: Sequence[Decisions] = (), actions: tuple[str, ...] = ("allocate", "reclaim")
) -> Decisions:
    """A gang that needs one of two sub-groups finds victims for that one, but is served only with both."""
    parts = tuple(SubGroup(name=name, minMember=1) for name in ("a", "b"))
    objects = [
        *[node("n1", gpus=2), queue("theirs", quota=0, weight=0), queue("mine", quota=2)],
        *[*job("old0", on="n1", queue="theirs"), *job("old1", on="n1", queue="theirs")],
        pod_group("some", queue="mine", subgroups=parts, min_subgroup=1, created=1),
        *[*gang("some", 1, gpus=2, subgroup="a"), *gang("some", 1, gpus=2, subgroup="b")],
        *others,
    ]
    state = state_of(objects)
    for decisions in remembered:
        state.remember(decisions, NOW)
    return decide(state.snapshot(NOW), configured(*actions))


def test_a_gang_that_is_served_only_as_a_whole_holds_others_up_for_one_cycle() -> None:
    later = job("later", queue="mine", created=2)
    first = one_of_two(*later)
    assert evictions(first) == {}
    assert [each.key.name for each in first.passed_over] == ["some"]
    assert first.look_again_at == NOW
    second = one_of_two(*later, remembered=[first])
    assert set(evictions(second).values()) == {"later"}
    assert not second.passed_over


def test_what_a_gang_only_seemed_to_get_is_not_in_any_account() -> None:
    decisions = one_of_two()
    assert {each.job.key.name for each in decisions.waiting} == {"some"}
    assert decisions.queue_allocated["mine"][0] == 0
    assert decisions.queue_allocated["theirs"][0] == 2


def test_a_moved_pod_stays_when_its_new_place_is_taken_and_its_old_one_is_free() -> None:
    """Statements of one cycle: the pod moves from n1 to n2, loses n2 to another job, and n1 has room after all."""
    snapshot = snapshot_of([node("n1", gpus=1), node("n2", gpus=1)], queue("q"), job("old", on="n1"), job("new"))
    session = open_session(snapshot, Configuration())
    new, old = (session.jobs.state(snapshot.jobs[key]) for key in sorted(snapshot.jobs))
    (moved,), (placed,) = old.job.tasks, new.job.tasks
    move = Statement(session, new.job)
    move.evict(old, moved)
    move.pipeline(old, moved, NodeRow(1))
    move.commit()
    taken = Statement(session, new.job)
    taken.evict(old, moved)
    taken.pipeline(new, placed, NodeRow(1))
    taken.pipeline(old, moved, NodeRow(0))
    taken.commit()
    assert old.placement(moved)[:2] == (TaskStatus.RUNNING, 0)
    decisions = session.close()
    assert evictions(decisions) == {}
    assert pipelines(decisions) == {"new-0": "n2"}


def test_victims_of_several_nodes_go_for_a_gang() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2)],
        [queue("theirs", quota=0, weight=0), queue("mine", quota=6)],
        [each for i in range(6) for each in job(f"old{i}", on=f"n{i % 3 + 1}", queue="theirs")],
        job("new", 3, gpus=2, queue="mine"),
        configuration=configured("allocate", "reclaim"),
    )
    assert len(evictions(decisions)) == 6
    assert pipelines(decisions) == {"new-0": "n1", "new-1": "n2", "new-2": "n3"}


def test_what_no_victim_can_help_is_not_searched_for() -> None:
    """A plugin says that the pod can't run at all: the job gets this reason, and nobody is evicted."""
    from bosket.scheduler.decide import run_action

    snapshot = snapshot_of(
        node("n1", gpus=1),
        [queue("theirs", quota=0, weight=0), queue("mine", quota=1)],
        job("old", on="n1", queue="theirs"),
        job("new", queue="mine"),
    )
    session = open_session(snapshot, Configuration())
    session.extensions.task_checks.append(lambda task: "its ConfigMap is missing" if task.key.name == "new-0" else None)
    run_action(session, "reclaim")
    decisions = session.close()
    assert evictions(decisions) == {}
    assert reasons(decisions) == {
        "new": "Resources were not found for pod default/new-0 due to: its ConfigMap is missing"
    }


def test_a_job_that_was_promised_a_place_in_this_cycle_may_lose_it_to_another() -> None:
    """`high` wants more than its queue may reclaim, so `low` is given the place of `old`; `high` preempts it there."""
    decisions = decided(
        node("n1", gpus=2),
        [queue("theirs", quota=0, weight=0), queue("mine", quota=2, weight=0)],
        [priority_class("low", 10), priority_class("high", 90)],
        job("old", on="n1", queue="theirs"),
        job("lower", on="n1", queue="mine", priority="low"),
        job("low", queue="mine", priority="low"),
        job("high", 2, queue="mine", priority="high"),
        configuration=configured("allocate", "reclaim", "preempt"),
    )
    assert [(each.task.key.name, each.action) for each in decisions.evictions] == [
        ("old-0", "reclaim"),
        ("low-0", "preempt"),
        ("lower-0", "preempt"),
    ]
    assert pipelines(decisions) == {"high-0": "n1", "high-1": "n1"}


def test_a_statement_that_is_converted_keeps_whom_it_spared() -> None:
    snapshot = snapshot_of(
        node("n1", gpus=2), queue("q"), job("old", on="n1"), job("new"), pod("x").gpu(1).running_on("n1").build()
    )
    session = open_session(snapshot, Configuration())
    old, new = (session.jobs.state(snapshot.jobs[key]) for key in sorted(snapshot.jobs, reverse=True))
    (old_task,), (new_task,) = old.active_tasks(), new.next_tasks()
    statement = Statement(session)
    statement.evict(old, old_task)
    statement.pipeline(old, old_task, NodeRow(0))
    statement.allocate(new, new_task, NodeRow(0))
    statement.convert_to_pipelined(new)
    statement.commit()
    assert operations(session.close()) == [(Pipeline, "new-0", "n1")]


def test_what_was_gathered_of_a_job_in_vain_stays() -> None:
    """The extra on n1 comes first and isn't enough. In KAI it goes with that of n2, which then moves to n1."""
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        [queue("theirs", quota=0, weight=0), queue("mine", quota=3)],
        job("firm", on="n1", queue="mine", preemptibility="non-preemptible"),
        pod_group("y", queue="theirs", min_member=0),
        [pod(f"y-{i}").gpu(1).of_group("y").running_on(on).build() for i, on in enumerate(("n2", "n1"))],
        job("new", gpus=2, queue="mine"),
        configuration=configured("allocate", "reclaim"),
    )
    assert set(evictions(decisions)) == {"y-0"}
    assert pipelines(decisions) == {"new-0": "n2"}


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (set(), {"old-0": "new"}),
        ({"sg-nodelocalgreedy"}, {"old-0": "new"}),
        ({"sg-multinodegang"}, {"old-0": "new"}),
        ({"sg-nodelocalgreedy", "sg-multinodegang"}, {}),
    ],
)
def test_without_a_plugin_that_makes_scenarios_nobody_is_evicted(
    left_out: set[str], expected: Mapping[str, str]
) -> None:
    configuration = configured("allocate", "reclaim")
    plugins = tuple(each for each in configuration.plugins if each.name not in left_out)
    decisions = decided(
        node("n1", gpus=1),
        [queue("theirs", quota=0, weight=0), queue("mine", quota=1)],
        job("old", on="n1", queue="theirs"),
        job("new", queue="mine"),
        configuration=replace(configuration, plugins=plugins),
    )
    assert evictions(decisions) == expected


def test_nobody_is_promised_room_that_a_gang_only_seemed_to_make() -> None:
    """Not even without an eviction: the victim that the search came by fits where it is."""
    parts = tuple(SubGroup(name=name, minMember=1) for name in ("a", "b"))
    decisions = decided(
        [node("n1", gpus=2), queue("theirs", quota=0, weight=0), queue("mine", quota=2)],
        [*job("old", gpus=2, on="n1", queue="theirs"), *job("small", gpus=0, on="n1", queue="theirs")],
        pod_group("some", queue="mine", subgroups=parts, min_subgroup=1, created=1),
        [*gang("some", 1, subgroup="a"), *gang("some", 1, gpus=2, subgroup="b")],
        job("later", queue="mine", created=2),
        configuration=configured("allocate", "reclaim"),
    )
    assert [each.key.name for each in decisions.passed_over] == ["some"]
    assert evictions(decisions) == pipelines(decisions) == {}


def test_nobody_is_evicted_for_extras_of_a_gang_whose_minimum_is_not_promised() -> None:
    """`other` would have its minimum only in the room that is made for `new`, which can't start."""
    parts = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=4))
    decisions = decided(
        [node("n1", gpus=3), node("n2", gpus=1), node("n3", gpus=1)],
        [queue("theirs", quota=0, weight=0), queue("mine", quota=9)],
        [priority_class("low", 10), priority_class("high", 60)],
        [*job("old", gpus=3, on="n1", queue="theirs"), *job("stays", on="n2", queue="theirs")],
        job("low", on="n3", queue="mine", priority="low"),
        pod_group("new", queue="mine", priority="high", subgroups=parts, min_subgroup=1),
        [*gang("new", 1, gpus=2, subgroup="a"), *gang("new", 4, subgroup="b")],
        job("other", 2, min_member=1, queue="mine"),
        configuration=configured("allocate", "reclaim", "preempt"),
    )
    assert evictions(decisions) == {}
