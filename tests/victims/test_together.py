"""What a search does for many tasks at once comes to the same as doing it task by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Node
from bosket.api.kai import PodGroup, SubGroup
from bosket.api.object import KubeObject
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.solver.accumulation import Accumulation
from bosket.scheduler.solver.order import JobTable
from bosket.scheduler.solver.room import Held, held_by_job
from bosket.testing.build import gang, job, node, pod_group, queue, topology, within
from bosket.testing.cluster import NOW, decided, evictions, pipelines, snapshot_of
from tests.victims.cluster_strategy import EVERYTHING, clusters

pytestmark = pytest.mark.slow


@st.composite
def racks(draw: st.DrawFn) -> list[KubeObject]:
    """A cluster with two racks, in which some gangs must be in one of them."""
    objects: list[KubeObject] = [topology("t", "rack")]
    for each in draw(clusters()):
        if isinstance(each, Node):
            labels = {**each.metadata.labels, "rack": draw(st.sampled_from(["r1", "r2"]))}
            objects.append(
                msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, labels=labels))
            )
        elif isinstance(each, PodGroup) and draw(st.booleans()):
            constraint = within("t", *draw(st.sampled_from([("rack",), ("", "rack")])))
            spec = msgspec.structs.replace(each.spec, topologyConstraint=constraint)
            objects.append(msgspec.structs.replace(each, spec=spec))
        else:
            objects.append(each)
    return objects


def outcome(objects: Sequence[KubeObject]) -> list[tuple[str, str, str]]:
    decisions = decide(snapshot_of(objects, now=NOW), EVERYTHING)
    return [(type(each).__name__, str(each.task.key), each.node) for each in decisions.operations]


_init = Statement.__init__


def _without_baseline(self: Statement, session: Session, preemptor: Any = None, baseline: object = None) -> None:
    del baseline
    _init(self, session, preemptor)


@given(racks())
@settings(max_examples=80)
def test_evicting_placing_and_undoing_task_by_task_changes_no_decision(objects: list[KubeObject]) -> None:
    expected = outcome(objects)
    with patch.object(Statement, "__init__", _without_baseline):
        assert outcome(objects) == expected


@given(racks())
@settings(max_examples=80)
def test_simulating_what_no_domain_has_room_for_changes_no_decision(objects: list[KubeObject]) -> None:
    expected = outcome(objects)
    with patch.object(Accumulation, "may_suffice_in_domains", lambda *_: True):
        assert outcome(objects) == expected


@given(clusters(), st.data())
@settings(max_examples=40)
def test_what_the_jobs_of_a_queue_hold_is_kept_true_as_they_change(
    objects: list[KubeObject], data: st.DataObject
) -> None:
    session = open_session(snapshot_of(objects, now=NOW), EVERYTHING)
    states = [
        state for state in map(session.jobs.state_of, session.snapshot.jobs.values()) if state and state.has_active
    ]
    table = JobTable(session, states)
    rows = sorted({state.queue_row for state in states})
    for row in rows:
        table.held(row)
    left = list(states)
    while left:
        job = left.pop(data.draw(st.integers(0, len(left) - 1)))
        statement = Statement(session)
        for task in data.draw(st.permutations(job.active_tasks()))[:2]:
            statement.evict(job, task)
        statement.commit()
        table.renew(job, keep=job.has_active)
        for row in rows:
            expected = [held_by_job(session, each) for each in states if each.queue_row == row]
            assert (_dense(session, [table.held(row)]) == _dense(session, expected)).all()
            assert set(table.held(row).rows.tolist()) == {place for each in expected for place in each.rows.tolist()}


def _dense(session: Session, held: Sequence[Held]) -> np.ndarray:
    """(resource, node)."""
    result = np.zeros_like(session.nodes.idle)
    for each in held:
        result[:, each.rows] += each.amounts
    return result


def test_a_gang_leaves_a_domain_in_which_only_a_part_of_it_finds_room() -> None:
    """By its sum the first rack has room for both parts, but no node there takes the second one."""
    decisions = decided(
        [node(f"n{i}", gpus=1, rack="r1") for i in range(3)],
        [node("n3", gpus=4, rack="r2"), topology("t", "rack")],
        [queue("poor", quota=0), queue("q", quota=4)],
        job("victim", 1, gpus=4, on="n3", queue="poor"),
        pod_group("g", subgroups=(SubGroup(name="x", minMember=1), SubGroup(name="y", minMember=1)),
                  topology=within("t", "rack")),
        [*gang("g", 1, gpus=0, subgroup="x"), *gang("g", 1, gpus=2, subgroup="y")],
    )  # fmt: skip
    assert evictions(decisions) == {"victim-0": "g"}
    assert pipelines(decisions) == {"g-x-0": "n3", "g-y-0": "n3"}
