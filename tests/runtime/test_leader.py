"""At most one process leads; it leads as long as it lives and can say so, and then another does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise

import pytest

from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.runtime.leader import LeaderElector, LeaseTiming
from tests.runtime.cluster import Cluster

pytestmark = pytest.mark.looptime
NAMESPACE = "kai-scheduler"


class Candidate:
    """One process that wants to lead; `terms` has [begin, end] of each of its terms."""

    def __init__(self, cluster: Cluster, identity: str, client: Client | None = None) -> None:
        self._cluster = cluster
        self.leads = asyncio.Event()
        self.terms: list[list[float]] = []
        self.elector = LeaderElector(
            client or cluster.client, clock=cluster.clock, namespace=NAMESPACE, name="scheduler", identity=identity
        )
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self) -> None:
        term = [self._cluster.clock.monotonic(), float("inf")]
        self.terms.append(term)
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()
            term[1] = self._cluster.clock.monotonic()

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def the_lease(cluster: Cluster) -> LeaseSpec:
    return (await cluster.client.get(Lease, "scheduler", NAMESPACE)).spec


async def test_the_first_candidate_makes_the_lease_and_renews_it() -> None:
    cluster = await Cluster().start(NAMESPACE)
    first = Candidate(cluster, "a")
    await first.leads.wait()
    made = await the_lease(cluster)
    assert (made.holderIdentity, made.leaseDurationSeconds, made.leaseTransitions) == ("a", 15, 0)
    await asyncio.sleep(61)
    renewed = await the_lease(cluster)
    assert renewed.acquireTime == made.acquireTime
    assert renewed.renewTime is not None
    assert made.renewTime is not None
    assert renewed.renewTime > made.renewTime
    assert len(first.terms) == 1
    await first.stop()


async def test_a_leader_that_stops_gives_the_lease_back_and_the_next_takes_over_at_its_next_look() -> None:
    cluster = await Cluster().start(NAMESPACE)
    first, second = Candidate(cluster, "a"), Candidate(cluster, "b")
    await first.leads.wait()
    await asyncio.sleep(31)
    await first.stop()
    released = await the_lease(cluster)
    assert (released.holderIdentity or "", released.leaseDurationSeconds) == ("", 1)
    await asyncio.wait_for(second.leads.wait(), 6)
    taken = await the_lease(cluster)
    assert (taken.holderIdentity, taken.leaseTransitions, taken.leaseDurationSeconds) == ("b", 1, 15)
    assert first.terms[0][1] <= second.terms[0][0]
    await second.stop()


async def test_a_leader_that_is_cut_off_stops_before_another_begins() -> None:
    cluster = await Cluster().start(NAMESPACE)
    wire, client = cluster.wire()
    first = Candidate(cluster, "a", client)
    await first.leads.wait()
    second = Candidate(cluster, "b")
    await asyncio.sleep(30)
    wire.cut = True
    await asyncio.wait_for(second.leads.wait(), 30)
    assert first.terms[0][1] < second.terms[0][0]
    wire.cut = False
    await asyncio.sleep(60)
    assert len(first.terms) == len(second.terms) == 1, "the old leader waits like anybody else"
    await second.stop()
    await asyncio.wait_for(first.leads.wait(), 6)
    await first.stop()


async def test_a_renewal_that_hangs_counts_as_none() -> None:
    cluster = await Cluster().start(NAMESPACE)
    wire, client = cluster.wire()
    first = Candidate(cluster, "a", client)
    await first.leads.wait()
    begun = cluster.clock.monotonic()
    wire.stuck = True
    await asyncio.sleep(11)
    assert not first.leads.is_set()
    assert first.terms[0][1] - begun == pytest.approx(10)
    wire.stuck = False
    await first.stop()


@pytest.mark.parametrize("exists", [False, True])
async def test_who_learns_too_late_that_the_lease_is_taken_does_not_lead_beside_the_next(exists: bool) -> None:
    cluster = await Cluster().start(NAMESPACE)
    if exists:
        await cluster.client.create(Lease(metadata=ObjectMeta(name="scheduler", namespace=NAMESPACE)))
    wire, client = cluster.wire()
    wire.lag_of_writes = 30.0
    first = Candidate(cluster, "a", client)
    await asyncio.sleep(1)
    assert (await the_lease(cluster)).holderIdentity == "a"
    second = Candidate(cluster, "b")
    await asyncio.wait_for(second.leads.wait(), 25)
    await asyncio.sleep(60)
    assert first.terms == []
    assert second.leads.is_set()
    wire.lag_of_writes = 0.0
    await second.stop()
    await asyncio.wait_for(first.leads.wait(), 60)
    await first.stop()


async def test_a_renewal_with_a_late_answer_counts_from_when_it_was_sent() -> None:
    cluster = await Cluster().start(NAMESPACE)
    wire, client = cluster.wire()
    first = Candidate(cluster, "a", client)
    await first.leads.wait()
    begun = cluster.clock.monotonic()
    wire.lag_of_writes = 4.0
    await asyncio.sleep(9.5)  # renewed at 5 s, known at 9 s
    wire.stuck = True
    await asyncio.sleep(10)
    assert first.terms[0][1] - begun == pytest.approx(15)
    wire.stuck = False
    await first.stop()


async def test_an_outage_shorter_than_the_renew_deadline_costs_nothing() -> None:
    cluster = await Cluster().start(NAMESPACE)
    wire, client = cluster.wire()
    first = Candidate(cluster, "a", client)
    await first.leads.wait()
    for _ in range(5):
        wire.cut = True
        await asyncio.sleep(3.5)
        wire.cut = False
        await asyncio.sleep(10)
    wire.deaf = True
    await asyncio.sleep(3.5)
    wire.deaf = False
    await asyncio.sleep(30)
    assert len(first.terms) == 1
    assert first.leads.is_set()
    await first.stop()


async def test_a_lease_that_another_wrote_over_ends_the_term_at_the_next_renewal() -> None:
    cluster = await Cluster().start(NAMESPACE)
    first = Candidate(cluster, "a")
    await first.leads.wait()
    await cluster.client.patch(Lease, "scheduler", {"spec": {"holderIdentity": "thief"}}, namespace=NAMESPACE)
    await asyncio.sleep(6)
    assert not first.leads.is_set()
    assert (await the_lease(cluster)).holderIdentity == "thief", "what is not ours is not given back"
    await asyncio.wait_for(first.leads.wait(), 30)
    assert (await the_lease(cluster)).leaseTransitions == 1
    await first.stop()


async def test_expiry_is_measured_by_own_observation_and_not_by_the_holder_s_clock() -> None:
    """The holder's clock is a year behind, and then a year ahead: neither matters while its renewals are seen."""
    cluster = await Cluster().start(NAMESPACE)
    spec = LeaseSpec(holderIdentity="other", leaseDurationSeconds=15, renewTime="2024-01-01T00:00:00.000000Z")
    await cluster.client.create(Lease(metadata=ObjectMeta(name="scheduler", namespace=NAMESPACE), spec=spec))
    candidate = Candidate(cluster, "a")
    for second in range(30):
        await asyncio.sleep(5)
        year = 2024 if second < 15 else 2027
        patch = {"spec": {"renewTime": f"{year}-01-01T00:00:{second:02}.000000Z"}}
        await cluster.client.patch(Lease, "scheduler", patch, namespace=NAMESPACE)
    assert not candidate.leads.is_set()
    await asyncio.sleep(14)
    assert not candidate.leads.is_set()
    await asyncio.wait_for(candidate.leads.wait(), 7)
    await candidate.stop()


async def test_of_many_candidates_exactly_one_leads_whatever_happens_to_leaders() -> None:
    cluster = await Cluster().start(NAMESPACE)
    candidates = [Candidate(cluster, f"c{number}") for number in range(5)]
    everyone = list(candidates)
    while candidates:
        await asyncio.sleep(40)
        (leader,) = [candidate for candidate in candidates if candidate.leads.is_set()]
        candidates.remove(leader)
        if len(candidates) % 2:
            await leader.stop()
        else:
            leader.task.cancel()
            await asyncio.wait([leader.task])
    terms = sorted(term for candidate in everyone for term in candidate.terms)
    assert len(terms) == 5
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(terms))


async def test_work_that_ends_by_itself_ends_the_run_and_frees_the_lease() -> None:
    cluster = await Cluster().start(NAMESPACE)
    elector = LeaderElector(
        cluster.client, clock=cluster.clock, namespace=NAMESPACE, name="scheduler", identity="a", timing=LeaseTiming(15)
    )

    async def work() -> None:
        await asyncio.sleep(1)

    await elector.run(work)
    assert not (await the_lease(cluster)).holderIdentity


async def test_work_that_fails_frees_the_lease_and_says_so() -> None:
    cluster = await Cluster().start(NAMESPACE)
    elector = LeaderElector(cluster.client, clock=cluster.clock, namespace=NAMESPACE, name="scheduler", identity="a")

    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await elector.run(work)
    assert not (await the_lease(cluster)).holderIdentity


async def test_a_missing_namespace_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await Cluster().start()
    candidate = Candidate(cluster, "a")
    await asyncio.sleep(12)
    assert not candidate.leads.is_set()
    assert any(NAMESPACE in getattr(record, "error", "") for record in caplog.records)
    await cluster.add_namespace(NAMESPACE)
    await asyncio.wait_for(candidate.leads.wait(), 6)
    await candidate.stop()


def test_durations_that_would_let_two_lead_are_refused() -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match=r"kai-scheduler/scheduler.*10, 10, 5"):
        LeaderElector(
            cluster.client,
            clock=cluster.clock,
            namespace=NAMESPACE,
            name="scheduler",
            identity="a",
            timing=LeaseTiming(10, 10, 5),
        )
