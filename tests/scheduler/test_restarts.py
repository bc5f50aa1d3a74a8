"""A scheduler that is killed in the middle of evictions: its successor evicts nobody else, and nobody takes turns."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import os
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bosket.api.coordination import Lease
from bosket.api.core import ConfigMap, Namespace, Pod
from bosket.api.core.node import Node
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta, OwnerReference
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.model.nomination import NominatedPod, Nomination
from bosket.scheduler.options import Options
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.memory import (
    MOST_BYTES,
    NO_MEMORY,
    VERSION,
    KeptBackoff,
    KeptJob,
    KeptPreemption,
    Memory,
    UnreadableMemory,
    decode,
    encode,
)
from bosket.scheduler.state.own.preemption_history import REMEMBERED_SECONDS
from bosket.scheduler.state.own_decisions import RESUME_SECONDS
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, state_of
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.present import present
from tests.rig import NAMESPACE, Meddling, Rig, make_rig
from tests.scheduler.longrun import follow

pytestmark = pytest.mark.slow

CLUSTERS = int(os.environ.get("BOSKET_LONGRUN_CLUSTERS", "40"))
EVICTION = matching("POST", "/eviction")
#: A story that ends badly when nothing is remembered.
FORGETFUL = 14
HOME, MEMORY_NAME = "kai-scheduler", "kai-scheduler-memory"


def scheduler(env: Environment) -> Scheduler:
    return service(env, Options())


# ── in the long run ──


@given(st.integers(0, 2**32))
@settings(max_examples=CLUSTERS // 4, deadline=None)
def test_random_clusters_come_to_rest_though_their_scheduler_is_killed_again_and_again(seed: int) -> None:
    follow(seed, restarts=True)


@given(st.integers(0, 2**32))
@settings(max_examples=CLUSTERS // 8, deadline=None)
def test_so_do_those_with_shared_gpus_and_minimum_run_times(seed: int) -> None:
    follow(seed, varied=True, restarts=True)


def test_without_its_memory_the_successor_would_not_keep_every_promise() -> None:
    with pytest.raises(AssertionError):
        follow(FORGETFUL, restarts=True, remembers=False)
    follow(FORGETFUL, restarts=True)


# ── on a cluster, killed before and after every write ──


class Killing:
    """A transport on which the process dies at its `nth` write, `sent` or not; the process gets no answer."""

    def __init__(self, inner: Transport, nth: int | None, *, sent: bool) -> None:
        self._inner, self._nth, self._sent = inner, nth, sent
        self.writes: list[str] = []
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if request.method == "GET" or "/events" in request.path:  # what is said of it changes nothing
            return await self._inner.request(request)
        if self.dead.is_set():
            await asyncio.Event().wait()
        self.writes.append(f"{request.method} {request.path}")
        if len(self.writes) != self._nth:
            return await self._inner.request(request)
        self.dead.set()
        if self._sent:
            await self._inner.request(request)
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def a_cluster(gpus: int) -> Rig:
    """`low` runs on all of node n1; `high`, of the same queue, comes for one GPU of it."""
    rig = await make_rig(
        [
            node("n1", gpus=gpus),
            queue("q"),
            queue("a"),
            priority_class("low", 10),
            priority_class("high", 60),
            pod_group("low", namespace=NAMESPACE, min_member=gpus, priority="low"),
            pod_group("high", namespace=NAMESPACE, priority="high"),
            Namespace(metadata=ObjectMeta(name=HOME)),
        ]
    )
    for each in gang("low", gpus, namespace=NAMESPACE):
        made = await rig.client.create(each)
        await rig.client.bind(made, "n1")
        status = {"phase": "Running"}
        await rig.client.patch(Pod, made.metadata.name, {"status": status}, namespace=NAMESPACE, subresource="status")
    await rig.apply(*gang("high", 1, gpus=gpus, namespace=NAMESPACE))
    return rig


async def going(rig: Rig) -> set[str]:
    pods = (await rig.client.list(Pod, NAMESPACE)).items
    return {each.metadata.name for each in pods if each.metadata.deletionTimestamp}


async def end_what_goes(rig: Rig) -> None:
    """What a kubelet does."""
    for name in await going(rig):
        await rig.client.delete(Pod, name, NAMESPACE, grace_seconds=0)


async def requests(rig: Rig) -> set[str]:
    return {each.metadata.name for each in (await rig.client.list(BindRequest, NAMESPACE)).items}


async def kept(rig: Rig) -> Memory | None:
    found = [each for each in (await rig.client.list(ConfigMap, HOME)).items if each.metadata.name == MEMORY_NAME]
    return decode(base64.b64decode(found[0].binaryData["memory"])) if found else None


async def high_starts(rig: Rig) -> bool:
    await end_what_goes(rig)
    return "high-0" in await requests(rig)


async def writes_of_a_whole_story(gpus: int) -> list[str]:
    rig = await a_cluster(gpus)
    transport = Killing(rig.server.transport(), None, sent=True)
    async with rig.running(scheduler, transport):
        await rig.until(lambda: high_starts(rig))
    return transport.writes


@pytest.mark.looptime
async def test_wherever_the_scheduler_is_killed_nobody_is_evicted_twice_and_the_room_goes_to_whom_it_was_made_for() -> (
    None
):
    """After the kill a job comes that would go first, were the room nobody's; and what was evicted ends."""
    count = len(await writes_of_a_whole_story(2))
    assert count >= 6
    for nth, sent in itertools.product(range(1, count + 1), (False, True)):
        rig = await a_cluster(2)
        transport = Killing(rig.server.transport(), nth, sent=sent)
        async with rig.running(scheduler, transport):
            await transport.dead.wait()
        evicted = await going(rig)
        began = f"killed at write {nth} ({transport.writes[-1]}), sent: {sent}, evicted: {sorted(evicted)}"
        await rig.apply(
            pod_group("other", namespace=NAMESPACE, queue="a", priority="low"), *gang("other", 1, namespace=NAMESPACE)
        )
        await end_what_goes(rig)
        successor = FaultyTransport(rig.server.transport())
        async with rig.running(scheduler, successor):
            await rig.until(partial(high_starts, rig))
            assert await requests(rig) == {"high-0"}, began
        asked = [each.path.rsplit("/", 2)[1] for each in successor.requests if EVICTION(each)]
        assert len(asked) == len(set(asked)), began
        assert set(asked) <= {"low-0", "low-1"}, began


@pytest.mark.looptime
async def test_what_was_about_to_happen_is_written_before_it_happens_and_little_is_written() -> None:
    rig = await a_cluster(2)
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(scheduler, transport):
        await rig.until(lambda: high_starts(rig))
        await rig.clock.sleep(60)
    changes = [each for each in transport.requests if each.method != "GET"]
    about = [each for each in changes if "configmaps" in each.path or EVICTION(each)]
    kinds = ["eviction" if EVICTION(each) else each.method for each in about]
    assert kinds[:3] == ["POST", "eviction", "eviction"]
    assert kinds.count("POST") + kinds.count("PATCH") <= 3  # decided, observed, ended
    assert [(present(each).nominations, present(each).evictions) for each in [await kept(rig)]] == [((), ())]


@pytest.mark.looptime
async def test_the_memory_belongs_to_whom_the_lease_does() -> None:
    """The operator gives the lease to its SchedulingShard; with that, both go."""
    rig = await a_cluster(1)
    shard = OwnerReference(apiVersion="kai.scheduler/v1", kind="SchedulingShard", name="default", uid="u1")
    held = msgspec.structs.replace(shard, controller=True, blockOwnerDeletion=True)
    await rig.apply(Lease(metadata=ObjectMeta(name="kai-scheduler", namespace=HOME, ownerReferences=(held,))))
    async with rig.running(scheduler):
        await rig.until(lambda: kept(rig))
    assert (await rig.client.get(ConfigMap, MEMORY_NAME, HOME)).metadata.ownerReferences == (shard,)


@pytest.mark.looptime
async def test_a_scheduler_that_evicts_nobody_writes_no_memory() -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q"), pod_group("g", namespace=NAMESPACE)])
    await rig.apply(Namespace(metadata=ObjectMeta(name=HOME)), *gang("g", 1, namespace=NAMESPACE))
    async with rig.running(scheduler):
        await rig.until(lambda: requests(rig))
        await rig.clock.sleep(60)
    assert await kept(rig) is None


@pytest.mark.looptime
async def test_evictions_wait_for_a_server_that_can_not_write_and_not_for_one_that_will_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = await a_cluster(1)
    transport = FaultyTransport(rig.server.transport())
    transport.add(refuse(matching("POST", "/configmaps"), 500, times=3))
    async with rig.running(scheduler, transport):
        await rig.until(lambda: going(rig))
    writes = [each.path for each in transport.requests if each.method == "POST"]
    first = next(place for place, path in enumerate(writes) if path.endswith("/eviction"))
    assert sum(path.endswith("/configmaps") for path in writes[:first]) >= 4
    assert await kept(rig)

    rig = await a_cluster(1)
    transport = FaultyTransport(rig.server.transport())
    transport.add(refuse(matching("POST", "/configmaps"), 403, times=None))
    with caplog.at_level(logging.WARNING):
        async with rig.running(scheduler, transport):
            await rig.until(lambda: high_starts(rig))
            await rig.clock.sleep(60)
    assert sum("a restart will forget nominations" in each.message for each in caplog.records) == 1


@pytest.mark.looptime
async def test_a_memory_that_somebody_spoilt_is_begun_anew() -> None:
    rig = await a_cluster(1)
    spoilt = ConfigMap(metadata=ObjectMeta(name=MEMORY_NAME, namespace=HOME), binaryData={"memory": "AAAA"})
    await rig.apply(spoilt)
    async with rig.running(scheduler):
        await rig.until(lambda: going(rig))
        assert present(await kept(rig)).nominations
        await rig.client.delete(ConfigMap, MEMORY_NAME, HOME)
        await rig.until(lambda: high_starts(rig))
        assert await rig.until(lambda: kept(rig))


@pytest.mark.looptime
async def test_a_write_that_was_refused_is_tried_again_though_nothing_more_changes() -> None:
    """The right to write may come later than the first decision."""
    rig = await a_cluster(1)
    transport = FaultyTransport(rig.server.transport())
    transport.add(refuse(matching("POST", "/configmaps"), 403, times=5))
    async with rig.running(scheduler, transport):
        await rig.until(lambda: going(rig))
        assert (await rig.until(lambda: kept(rig))).nominations
        tried = sum(each.path.endswith("/configmaps") for each in transport.requests if each.method == "POST")
        assert tried == 6


def applier_of(rig: Rig, state: ClusterState, transport: Meddling | None = None) -> Applier:
    client = Client(transport or rig.server.transport(), clock=rig.clock)
    env = Environment(
        client=client,
        informers=Informers(client),
        clock=rig.clock,
        events=EventRecorder(client, rig.clock, "test"),
        metrics=CollectorRegistry(),
    )
    return Applier(
        env, state, Options(), changed=lambda: None, evicted=lambda _: None, requested=lambda _: None
    )  # fmt: skip


def memory_map(memory: Memory) -> ConfigMap:
    data = {"memory": base64.b64encode(encode(memory)).decode()}
    return ConfigMap(metadata=ObjectMeta(name=MEMORY_NAME, namespace=HOME), binaryData=data)


@pytest.mark.looptime
async def test_a_leader_that_returns_writes_nothing_before_it_has_read_what_the_one_before_it_left() -> None:
    rig = await make_rig([Namespace(metadata=ObjectMeta(name=HOME))])
    state = state_of(objects())
    remembered(state)
    left = Memory(jobs=(KeptJob(key("low"), "u", 1),))
    await rig.apply(memory_map(left))
    applier = applier_of(rig, state)
    for _ in range(2):  # the first time, and when it leads again
        applier.start_anew()
        running = asyncio.create_task(applier.run())
        await rig.clock.sleep(60)
        assert await kept(rig) == left
        running.cancel()
        await asyncio.wait([running])
        await applier.restore()


@pytest.mark.looptime
async def test_nothing_is_written_while_the_memory_is_read() -> None:
    """A write in between would not know the version of the ConfigMap, and take the place of what is being read."""
    rig = await make_rig([Namespace(metadata=ObjectMeta(name=HOME))])
    state = state_of(objects())
    remembered(state)
    left = Memory(jobs=(KeptJob(key("low"), "u", 1),))
    await rig.apply(memory_map(left))
    saving: list[asyncio.Task[None]] = []

    async def save_meanwhile() -> None:
        applier._memory.changed()
        saving.append(asyncio.create_task(applier._memory.save()))
        await rig.clock.sleep(1)
        assert await kept(rig) == left

    read = matching("GET", MEMORY_NAME)
    applier = applier_of(rig, state, Meddling(rig.server.transport(), read, save_meanwhile))
    await applier.restore()
    await asyncio.gather(*saving)


# ── what is taken over, and what isn't ──


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def objects(*, gpus: int = 1, generation: int = 0, priority: int = 90, uid: str | None = None) -> list[KubeObject]:
    low = pod("low-0").of_group("low").gpu(1).running_on("n1").build()
    if uid is not None:
        low = msgspec.structs.replace(low, metadata=msgspec.structs.replace(low.metadata, uid=uid))
    group = pod_group("high", priority="high")
    meta = msgspec.structs.replace(group.metadata, generation=generation)
    return [
        node("n1", gpus=gpus),
        queue("q"),
        priority_class("low", 10),
        priority_class("high", priority),
        pod_group("low", priority="low"),
        low,
        msgspec.structs.replace(group, metadata=meta),
        *gang("high", 1),
    ]


def remembered(state: ClusterState | None = None) -> Memory:
    """What is remembered after `high` was given the place of `low`."""
    state = state or state_of(objects())
    decisions = decide(state.snapshot(NOW), Configuration())
    for each in decisions.lasting_evictions:
        state.own.assume_eviction(each.task.key, each.task.uid, NOW, each.action, each.text)
    state.remember(decisions, NOW)
    memory = state.memory(NOW)
    assert (len(memory.nominations), len(memory.evictions), len(memory.preemptions)) == (1, 1, 1)
    return decode(encode(memory))


def test_all_of_it_is_taken_over_by_a_state_that_sees_the_same_and_evictions_are_carried_out_as_they_were_decided() -> (
    None
):
    memory, state = remembered(), state_of(objects())
    (eviction,) = state.restore(memory, NOW + 1)
    assert (eviction.task.key, present(eviction.preemptor).key, eviction.action) == (
        key("low-0"),
        key("high"),
        "preempt",
    )
    assert "was preempted by higher priority workload default/high" in eviction.text
    state.own.assume_eviction(eviction.task.key, eviction.task.uid, NOW, eviction.action, eviction.text)
    assert state.memory(NOW + 1) == memory
    assert decide(state.snapshot(NOW + 1), Configuration()).lasting_evictions == ()


@pytest.mark.parametrize(
    ("seen", "later"),
    [
        (objects(uid="another"), 1),
        (objects(generation=7), 1),
        ([each for each in objects() if not (isinstance(each, PodGroup) and each.metadata.name == "high")], 1),
        ([each for each in objects() if each.metadata.name != "high-0"], 1),
        (objects(), RESUME_SECONDS),
    ],
    ids=["another victim", "another generation", "no job", "no pod that waits", "long ago"],
)
def test_an_eviction_is_not_carried_out_when_it_is_no_longer_the_one_that_was_decided(
    seen: Sequence[KubeObject], later: float
) -> None:
    state = state_of(seen)
    assert state.restore(remembered(), NOW + later) == ()
    nominations = [
        nomination
        for nomination in state.snapshot(NOW + later).nominations
        if (key("low-0"), "low-0") in nomination.victims
    ]
    assert nominations == []


@pytest.mark.parametrize(
    "seen",
    [objects(gpus=2), objects(priority=91), [*objects(), queue("new")], objects(generation=7)],
    ids=["node", "priority", "queue", "job"],
)
def test_preemptions_are_void_when_the_situation_changed_while_nobody_looked(seen: Sequence[KubeObject]) -> None:
    assert remembered().preemptions
    state = state_of(seen)
    state.restore(remembered(), NOW + 1)
    assert state.snapshot(NOW + 1).preempted_by == {}


def test_preemptions_end_when_they_would_have_ended() -> None:
    state = state_of(objects())
    state.restore(remembered(), NOW + REMEMBERED_SECONDS - 1)
    assert state.snapshot(NOW + REMEMBERED_SECONDS - 1).preempted_by
    assert not state.snapshot(NOW + REMEMBERED_SECONDS).preempted_by


def test_a_heartbeat_of_a_node_changes_no_situation() -> None:
    seen = objects()
    first = seen[0]
    assert isinstance(first, Node)
    status = msgspec.structs.replace(first.status, images=())
    later = msgspec.structs.replace(first, status=status, metadata=msgspec.structs.replace(first.metadata))
    state = state_of([later, *seen[1:]])
    state.restore(remembered(), NOW + 1)
    assert state.snapshot(NOW + 1).preempted_by


def test_refusals_and_failed_bindings_go_on_counting_and_only_for_the_same_pods() -> None:
    state = state_of(objects())
    (low,) = [each for each in state.objects(Pod) if each.metadata.name == "low-0"]
    high = next(each for each in state.objects(Pod) if each.metadata.name == "high-0")
    for _ in range(3):
        state.own.refuse_eviction(low.key, low.metadata.uid, NOW, "PodDisruptionBudget default/keep")
        state.own.back_off(high.key, high.metadata.uid, NOW)
    memory = decode(encode(state.memory(NOW)))
    again = state_of(objects())
    again.restore(memory, NOW + 3)
    assert again.memory(NOW + 3) == memory
    assert again.own.pods_backing_off(NOW + 3) == {key("high-0")}
    assert again.own.commitments(NOW + 3).refused == ((key("low-0"), "PodDisruptionBudget default/keep"),)
    other = state_of(objects(uid="another"))
    other.restore(memory, NOW + 3)
    assert other.memory(NOW + 3).refusals == ()


# ── bytes ──


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_garbage_is_never_taken_for_a_memory(garbage: bytes) -> None:
    with pytest.raises(UnreadableMemory):
        decode(garbage)
    whole = bytearray(encode(remembered()))
    for place, byte in enumerate(garbage):
        whole[(place * 31) % len(whole)] ^= byte | 1
    with contextlib.suppress(UnreadableMemory):
        decode(bytes(whole))


def test_a_memory_of_another_version_is_not_read() -> None:
    with pytest.raises(UnreadableMemory, match=f"its version is {VERSION + 1}"):
        decode(encode(Memory(version=VERSION + 1)))


def test_however_much_there_is_to_remember_it_fits_into_a_config_map() -> None:
    """What is served first is kept the longest, and no nomination stays of whose victims nothing is known."""

    def uid(*number: int) -> str:
        return base64.b16encode(repr(number).encode() * 7).decode()[:36] + os.urandom(9).hex()

    def nomination(number: int) -> Nomination:
        pods = tuple((ObjectKey("ns", f"v{number}-{i}"), uid(number, i)) for i in range(40))
        places = tuple(NominatedPod(ObjectKey("ns", f"p{number}-{i}"), uid(i, number), f"n{i}") for i in range(40))
        return Nomination(ObjectKey("ns", f"j{number}"), uid(number), 1, places, pods)

    keys = [ObjectKey("ns", f"j{number}") for number in range(2000)]
    memory = Memory(
        nominations=tuple(nomination(number) for number in range(400)),
        refusals=tuple(KeptBackoff(each, uid(), 1, NOW) for each in keys),
        jobs=tuple(KeptJob(each, uid(), 1) for each in keys),
        preemptions=tuple(KeptPreemption(each, keys[0], NOW + place) for place, each in enumerate(keys)),
    )
    encoded = encode(memory)
    assert len(encoded) <= MOST_BYTES
    read = decode(encoded)
    assert 0 < len(read.nominations) < 400
    assert read.nominations == memory.nominations[: len(read.nominations)]
    assert (read.refusals, read.preemptions) == ((), ())


def test_nothing_is_remembered_of_a_cluster_at_rest() -> None:
    state = state_of(objects(gpus=2))
    assert state.memory(NOW) == NO_MEMORY
