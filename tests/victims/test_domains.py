"""Nobody is gathered as a victim for groups that must each be in one domain before some domains could hold them."""

from __future__ import annotations

import pytest

from bosket.api.kai import SubGroup
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.solver.accumulation import Accumulation
from bosket.scheduler.solver.domain_room import DomainRoom
from bosket.testing.build import gang, job, node, pod_group, queue, topology, within
from bosket.testing.cluster import decided, evictions, snapshot_of

#: Two racks with 4 and 2 GPUs.
NODES = [node("n0", gpus=4, zone="a", rack="r1"), node("n1", gpus=2, zone="a", rack="r2")]


def room(*sizes: int, running: int = 0, by_fit: bool = False) -> DomainRoom:
    """For a job with a sub-group of so many one-GPU pods for each size, each of which must be in one rack.

    `running`: how many of each run on n0.
    """
    subgroups = tuple(
        each
        for i in range(len(sizes))
        for each in (
            SubGroup(name=f"set{i}", topologyConstraint=within("t", "rack")),
            SubGroup(name=f"leaf{i}", parent=f"set{i}", minMember=1),
        )
    )
    members = [pod for i, size in enumerate(sizes) for pod in gang("g", size, subgroup=f"leaf{i}", on=["n0"] * running)]
    snapshot = snapshot_of(
        NODES, queue("q"), topology("t", "zone", "rack"), pod_group("g", subgroups=subgroups), members
    )
    session = Session(snapshot, Configuration())
    (job,) = (session.jobs.state(each) for each in snapshot.jobs.values())
    if by_fit:
        session.outcome.ignore_estimates(job)
    return DomainRoom(session, job, job.left_over())


@pytest.mark.parametrize(
    ("sizes", "enough"), [((4, 2), True), ((2, 2, 2), True), ((5,), False), ((3, 3), False), ((4, 2, 1), False)]
)
def test_every_group_needs_a_domain_with_room_for_all_of_it(sizes: tuple[int, ...], enough: bool) -> None:
    assert room(*sizes).suffices() is enough


def test_what_victims_leave_counts_for_the_domain_of_their_node() -> None:
    domains = room(3, 3)
    domains.add(NodeRow(0), 1.0)
    assert not domains.suffices()
    domains.add(NodeRow(1), 1.0)
    assert domains.suffices()


def test_a_group_counts_with_what_it_has_as_in_kai() -> None:
    assert not room(5, running=2).suffices()
    assert room(4, running=2).suffices() is False


@pytest.mark.parametrize(
    ("sizes", "enough"), [((4, 2), True), ((2, 2, 2), True), ((5,), False), ((3, 3), False), ((4, 3), False)]
)
def test_a_no_is_final_for_jobs_that_are_judged_by_what_really_fits(sizes: tuple[int, ...], enough: bool) -> None:
    assert room(*sizes, by_fit=True).suffices() is enough


def test_such_a_job_finds_domains_that_kais_order_misses() -> None:
    """KAI puts the group of 4 GPUs into the domain with 6; those of 3 have no room together then."""
    assert kais_and_ours((4, 3, 3), (6, 4)) == (False, True)
    assert kais_and_ours((4, 4, 3), (6, 4)) == (False, False)


def kais_and_ours(sizes: tuple[int, ...], free: tuple[int, int]) -> tuple[bool, bool]:
    """Whether groups of these sizes have room in two racks with so much free, as KAI sees it, and really."""
    found = []
    for by_fit in (False, True):
        domains = room(*sizes, by_fit=by_fit)
        for row, (wanted, there) in enumerate(zip(free, (4, 2), strict=True)):
            domains.add(NodeRow(row), wanted - there)
        found.append(domains.suffices())
    return found[0], found[1]


def test_such_a_group_counts_with_what_it_waits_for() -> None:
    assert room(4, running=2, by_fit=True).suffices()
    assert not room(5, running=1, by_fit=True).suffices()


def test_nobody_is_looked_for_where_even_empty_domains_are_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is evicted, a gang of 5 is in no rack of 4."""

    def gather(*_: object, **__: object) -> None:
        raise AssertionError("a victim is looked for")

    monkeypatch.setattr(Accumulation, "__init__", gather)
    decisions = decided(
        [node("n0", gpus=4, zone="a", rack="r1"), node("n1", gpus=4, zone="a", rack="r2")],
        [queue("poor", quota=0), queue("q", quota=8)],
        topology("t", "zone", "rack"),
        [*job("x", 4, on="n0", queue="poor"), *job("y", 4, on="n1", queue="poor")],
        [pod_group("g", min_member=5, topology=within("t", "rack")), *gang("g", 5)],
    )
    assert evictions(decisions) == {}
