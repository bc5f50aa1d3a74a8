"""An object that the live state can't take in, or be looked at with, is left out, and nobody else is."""

from __future__ import annotations

import asyncio
import pkgutil
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue
from bosket.api.object import KubeObject, LabelSelector, LabelSelectorRequirement, ObjectKey
from bosket.api.resource_k8s import ResourceSlice
from bosket.api.storage import CSIStorageCapacity
from bosket.kube.informer import Informers
from bosket.runtime.service import Environment
from bosket.scheduler import loop
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.faults.culprits import Suspect
from bosket.scheduler.io import feed as feed_module
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.metrics.cycle import MOST_LEFT_OUT, SchedulerMetrics
from bosket.scheduler.model.task import Task
from bosket.scheduler.options import Options
from bosket.scheduler.state import jobs
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.queue_objects import QueueObjects
from bosket.scheduler.state.task_reader import TaskReader
from bosket.testing.build import PodBuilder, gang, node, numa_zones, pod, pod_group, queue
from bosket.testing.cluster import NOW, placements
from bosket.testing.device import device, device_slice
from tests.rig import NAMESPACE, make_rig
from tests.scheduler.storage import capacity, volume

FINE = (node("n0"), node("n1"), queue("q"), pod_group("fine", min_member=2), *gang("fine", 2))
BAD = (pod_group("bad"), *gang("bad", 1))
BOUND = {"fine-0", "fine-1"}


def fails_with_queues(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    original = QueueObjects.tree

    def poisoned(self: QueueObjects) -> object:
        if not self.objects.keys().isdisjoint(names):
            raise LookupError("bad")
        return original(self)

    monkeypatch.setattr(QueueObjects, "tree", poisoned)


@pytest.mark.looptime
async def test_an_object_that_can_not_be_taken_in_is_left_out() -> None:
    state = ClusterState()
    failed: list[Any] = []
    handlers = state.handlers(PodGroup)

    def put(group: PodGroup) -> None:
        handlers.put(group)
        if group.metadata.name == "bad":
            raise RecursionError

    class Poisoned:
        def handlers(self, kind: type[KubeObject]) -> object:
            return handlers._replace(put=put) if kind is PodGroup else state.handlers(kind)

    rig = await make_rig([pod_group(name, namespace=NAMESPACE) for name in ("bad", "fine")])
    informers = Informers(rig.client)
    feed = Feed(informers, Poisoned(), failed=failed.append)  # type: ignore[arg-type]
    running = asyncio.create_task(informers.run())
    await feed.wait_synced()
    running.cancel()
    assert [key.name for key in state.snapshot(NOW).jobs] == ["fine"]
    assert failed == ["PodGroup"]


@pytest.mark.parametrize(
    "what", ["bosket.scheduler.state.jobs.build_job", "bosket.scheduler.state.task_reader.TaskReader.read"]
)
def test_a_job_or_pod_that_can_not_be_made_is_left_out_alone(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, name = what.rpartition(".")
    holder = pkgutil.resolve_name(module)
    original = getattr(holder, name)

    def poisoned(*args: Any, **kwargs: Any) -> object:
        if any(isinstance(each, ObjectKey) and each.name.startswith("bad") for each in args):
            raise ZeroDivisionError("bad")
        return original(*args, **kwargs)

    monkeypatch.setattr(holder, name, poisoned)
    reported: list[str] = []
    state = ClusterState(report=reported.append)
    for each in (*FINE, *BAD):
        state.put(each)
    assert set(placements(decide(state.snapshot(NOW), Configuration()))) == BOUND
    assert any("fails with it: ZeroDivisionError: bad" in text for text in reported)


@pytest.mark.looptime
async def test_an_object_that_keeps_the_state_from_being_looked_at_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fails_with_queues(monkeypatch, "bad")
    rig = await make_rig(
        [node("n1"), queue("bad"), queue("q"),
         pod_group("fine", namespace=NAMESPACE), *gang("fine", 1, namespace=NAMESPACE)]
    )  # fmt: skip
    made = []

    async def bound() -> int:
        return len((await rig.client.list(BindRequest, NAMESPACE)).items)

    def scheduler(env: Environment) -> loop.Scheduler:
        made.append(loop.service(env, Options(failed_snapshots=None)))
        return made[-1]

    async with rig.running(scheduler):
        assert await rig.until(bound) == 1
        assert list(made[0]._state.snapshot(NOW).queues.rows) == ["q"]


@pytest.mark.looptime
async def test_an_object_that_came_in_long_ago_is_found_among_all_and_the_memory_is_taken_over_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart, when everything comes in at once."""
    fails_with_queues(monkeypatch, "bad", "worse")
    monkeypatch.setattr(feed_module, "_MOST_SUSPECTS", 3)
    rig = await make_rig(
        [node("n1"), queue("bad"), queue("worse"), queue("q"),
         pod_group("fine", namespace=NAMESPACE), *gang("fine", 5, namespace=NAMESPACE)]
    )  # fmt: skip
    made: list[loop.Scheduler] = []
    happened: list[str] = []
    restore, apply = Applier.restore, Applier.apply

    async def restored(self: Applier) -> None:
        happened.append("restore")
        await restore(self)

    async def applied(self: Applier, *args: Any, **kwargs: Any) -> None:
        happened.append("apply")
        await apply(self, *args, **kwargs)

    monkeypatch.setattr(Applier, "restore", restored)
    monkeypatch.setattr(Applier, "apply", applied)

    async def bound() -> int:
        return len((await rig.client.list(BindRequest, NAMESPACE)).items)

    def scheduler(env: Environment) -> loop.Scheduler:
        made.append(loop.service(env, Options(failed_snapshots=None)))
        return made[-1]

    async with rig.running(scheduler):
        assert await rig.until(bound) == 5
        assert list(made[0]._state.snapshot(NOW).queues.rows) == ["q"]
    assert happened[:2] == ["restore", "apply"]
    assert happened.count("restore") == 1


@pytest.mark.looptime
async def test_what_was_remembered_is_taken_over_before_the_first_cycle_though_it_could_not_be_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing can be left out so that it helps; later the failure passes."""
    failing = True
    happened: list[str] = []
    original, restore, apply = QueueObjects.tree, Applier.restore, Applier.apply

    def poisoned(self: QueueObjects) -> object:
        if failing:
            happened.append("failure")
            raise LookupError("whatever there is")
        return original(self)

    async def restored(self: Applier) -> None:
        happened.append("restore")
        await restore(self)

    async def applied(self: Applier, *args: Any, **kwargs: Any) -> None:
        happened.append("apply")
        await apply(self, *args, **kwargs)

    monkeypatch.setattr(QueueObjects, "tree", poisoned)
    monkeypatch.setattr(Applier, "restore", restored)
    monkeypatch.setattr(Applier, "apply", applied)
    rig = await make_rig(
        [node("n1"), queue("q"), pod_group("fine", namespace=NAMESPACE), *gang("fine", 1, namespace=NAMESPACE)]
    )

    async def bound() -> int:
        return len((await rig.client.list(BindRequest, NAMESPACE)).items)

    async with rig.running(lambda env: loop.service(env, Options(failed_snapshots=None))):
        await rig.clock.sleep(5.0)
        assert set(happened) == {"failure"}
        failing = False
        assert await rig.until(bound) == 1
    assert [each for each in happened if each != "failure"][:2] == ["restore", "apply"]


@pytest.mark.looptime
async def test_objects_that_are_gone_do_not_come_back_with_those_that_are_put_back() -> None:
    state = ClusterState()
    rig = await make_rig([queue("bad"), queue("gone"), queue("new")])
    informers = Informers(rig.client)
    feed = Feed(informers, state)
    running = asyncio.create_task(informers.run())
    await feed.wait_synced()
    await rig.client.delete(Queue, "gone")

    async def is_gone() -> bool:
        return "gone" not in {each.metadata.name for each in state.objects(Queue)}

    await rig.until(is_gone)
    running.cancel()
    with pytest.MonkeyPatch.context() as monkeypatch:
        fails_with_queues(monkeypatch, "bad")
        assert feed.leave_out_latest(NOW, LookupError())
    assert {each.metadata.name for each in state.objects(Queue)} == {"new"}


@pytest.mark.parametrize(
    ("running", "left"),
    [
        (pod("bad-0").gpu(6), {"w-0", "w-1"}),
        (pod("bad-0").gpu(6).asks("cpu", "three"), set()),  # nobody knows what it holds
        (pod("bad-0").shares_gpu(0.5), {f"w-{number}" for number in range(7)}),
    ],
)
@pytest.mark.parametrize("node_comes_last", [False, True])
def test_a_running_pod_that_can_not_be_read_keeps_its_room(
    running: Any, left: set[str], node_comes_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TaskReader.read

    def poisoned(self: TaskReader, key: ObjectKey, *args: Any) -> Task:
        if key.name == "bad-0":
            raise ZeroDivisionError("bad")
        return original(self, key, *args)

    monkeypatch.setattr(TaskReader, "read", poisoned)
    state, bad = ClusterState(), running.of_group("bad").running_on("n0").build()
    objects = [node("n0", gpus=8), bad]
    others = [queue("q"), *(each for n in range(8) for each in (pod_group(f"w{n}"), member(n)))]
    for each in (*(objects[::-1] if node_comes_last else objects), *others):
        state.put(each)
    assert set(placements(decide(state.snapshot(NOW), Configuration()))) == left
    ended = msgspec.structs.replace(bad, status=msgspec.structs.replace(bad.status, phase="Succeeded"))
    state.put(ended)
    assert len(placements(decide(state.snapshot(NOW), Configuration()))) == 8
    state.put(bad)
    assert set(placements(decide(state.snapshot(NOW), Configuration()))) == left
    state.drop(bad)
    assert len(placements(decide(state.snapshot(NOW), Configuration()))) == 8


def member(number: int) -> Pod:
    return pod(f"w-{number}").gpu(1).of_group(f"w{number}").build()


# What is left out is counted until it is fixed or gone


def with_amount(amount: str) -> Node:
    base = node("bad")
    allocatable = {**base.status.allocatable, "memory": amount}
    return msgspec.structs.replace(base, status=msgspec.structs.replace(base.status, allocatable=allocatable))


def slice_of(pool: str) -> ResourceSlice:
    found = device_slice("bad", device("d"), pool="bad")
    if pool:
        return found
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, pool=None))


def of_nodes(operator: str) -> CSIStorageCapacity:
    requirement = LabelSelectorRequirement(key="zone", operator=operator, values=("a",))
    topology = LabelSelector(matchExpressions=(requirement,))
    return msgspec.structs.replace(capacity("bad", "a", "1Gi"), nodeTopology=topology)


def foreign(builder: PodBuilder) -> Pod:
    """A pod of another scheduler's."""
    return replace(builder, scheduler="another").build()


UNREADABLE: list[tuple[KubeObject, KubeObject]] = [
    (pod("bad").of_group("g").asks("cpu", "three").build(), pod("bad").of_group("g").asks("cpu", "3").build()),
    (foreign(pod("bad").asks("cpu", "three")), foreign(pod("bad"))),
    (with_amount("much"), with_amount("8Gi")),
    (queue("bad", quota=-7), queue("bad")),
    (numa_zones("bad", {"cpu": "three"}), numa_zones("bad", {"cpu": "3"})),
    (volume("bad", size="large"), volume("bad")),
    (of_nodes("Near"), of_nodes("In")),
    (slice_of(""), slice_of("pool")),
]


@pytest.mark.parametrize(("bad", "fixed"), UNREADABLE, ids=lambda each: type(each).__name__)
def test_an_object_that_can_not_be_read_is_counted_until_it_is_mended_or_gone(
    bad: KubeObject, fixed: KubeObject
) -> None:
    state, known = ClusterState(), (type(bad), bad.key)
    for each in FINE:
        state.put(each)
    for then in (partial(state.put, fixed), partial(state.drop, bad)):
        state.put(bad)
        state.snapshot(NOW)
        assert list(state.unread()) == [known]
        then()
        state.snapshot(NOW)
        assert list(state.unread()) == []


def test_a_job_that_can_not_be_made_is_counted_until_it_can_be_or_its_group_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, group = jobs.build_job, pod_group("bad")  # type: ignore[attr-defined]

    def poisoned(key: ObjectKey, made_of: PodGroup, *args: Any, **kwargs: Any) -> object:
        if made_of.spec.queue == "poison":
            raise ZeroDivisionError("bad")
        return original(key, made_of, *args, **kwargs)

    monkeypatch.setattr(jobs, "build_job", poisoned)
    bad = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, queue="poison"))
    state = ClusterState()
    for then in (partial(state.put, group), partial(state.drop, bad)):
        state.put(bad)
        state.snapshot(NOW)
        assert list(state.unread()) == [(PodGroup, bad.key)]
        then()
        state.snapshot(NOW)
        assert list(state.unread()) == []


@pytest.mark.looptime
async def test_the_metric_counts_what_the_live_scheduler_leaves_out_until_it_is_mended_or_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue that the state can't be looked at with, one that it can't take in, and a pod that can't be read."""
    fails_with_queues(monkeypatch, "poison")
    original = QueueObjects.put

    def put(self: QueueObjects, obj: Queue) -> bool:
        if obj.metadata.name == "refused" and not obj.metadata.labels:
            raise LookupError("bad")
        return original(self, obj)

    monkeypatch.setattr(QueueObjects, "put", put)
    odd = foreign(pod("odd", NAMESPACE).shares_gpu("half"))
    rig = await make_rig([node("n1"), queue("q"), queue("poison"), queue("refused"), odd])
    registries: list[CollectorRegistry] = []

    def scheduler(env: Environment) -> loop.Scheduler:
        registries.append(env.metrics)
        return loop.service(env, Options(failed_snapshots=None))

    def counted() -> set[str]:
        (family,) = (each for each in registries[0].collect() if each.name == "bosket_scheduler_left_out")
        return {f"{each.labels['kind']} {each.labels['name']}" for each in family.samples}

    async def until(*expected: str) -> None:
        async def is_so() -> bool:
            return counted() == set(expected)

        await rig.until(is_so)

    async with rig.running(scheduler):
        await until("Queue poison", "Queue refused", "Pod odd")
        await rig.client.patch(Queue, "refused", {"metadata": {"labels": {"a": "b"}}})
        await until("Queue poison", "Pod odd")
        await rig.client.delete(Queue, "poison")
        await until("Pod odd")
        await rig.client.patch(Pod, "odd", {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, namespace=NAMESPACE)
        await until()


def test_the_metric_names_a_bounded_number_of_each_kind_and_counts_the_others() -> None:
    registry = CollectorRegistry()
    pods = [Suspect("Pod", f"p-{number:04}", "team") for number in range(MOST_LEFT_OUT + 7)]
    SchedulerMetrics(registry).left_out([*pods, Suspect("Queue", "q")])

    def sample(kind: str, namespace: str = "", name: str = "") -> float | None:
        labels = {"kind": kind, "object_namespace": namespace, "name": name}
        return registry.get_sample_value("bosket_scheduler_left_out", labels)

    assert sample("Pod", "team", "p-0000") == 1
    assert sample("Pod", "team", f"p-{MOST_LEFT_OUT:04}") is None
    assert sample("Pod") == 7
    assert sample("Queue", name="q") == 1
