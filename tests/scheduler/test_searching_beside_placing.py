"""Victims are searched for beside the loop that places: pods that have room never wait for a search, and what a search
finds is carried out only if it is still right."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.object import KubeObject
from bosket.runtime.clock import SystemClock
from bosket.runtime.service import Environment
from bosket.scheduler import search_loop
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.framework.session import Session
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.options import Options
from bosket.scheduler.state.own_decisions import OwnDecisions
from bosket.testing.build import gang, node, pod, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig

decide_module = importlib.import_module("bosket.scheduler.decide")  # the package has a function of that name


class Gate:
    """A plugin that stops a thread that decides, until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.where = "search"
        self.closed: list[Decisions] = []

    def open(self, session: Session) -> None:
        if self.where == "open":
            self._stop()
        session.extensions.reclaim_rights.add(self._right)

    def close(self, _snapshot: object, decisions: Decisions) -> None:
        self.closed.append(decisions)

    def _right(self, reclaimer: object) -> bool:
        if self.where == "search":
            self._stop()
        return True

    def _stop(self) -> None:
        self.reached.set()
        assert self.opened.wait(60), "nobody opened the gate"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(decide_module, "BUILT_IN", {**decide_module.BUILT_IN, "gate": lambda _: made})
    yield made
    made.opened.set()


GATED = Configuration(actions=("allocate", "reclaim"), plugins=(*Configuration().plugins, PluginChoice("gate")))


def running(group: str, count: int, gpus: int, on: str) -> list[Pod]:
    return [
        pod(f"{group}-{number}", namespace=NAMESPACE).gpu(gpus).of_group(group).running_on(on).build()
        for number in range(count)
    ]


def group(name: str, of: str, size: int = 1) -> KubeObject:
    return pod_group(name, min_member=size, namespace=NAMESPACE, queue=of)


async def a_contended_cluster(*objects: KubeObject) -> Rig:
    """Queue `a` holds both GPUs of n1 beyond its quota; `b`, which deserves one, waits for a GPU that only n1 has."""
    wanted = pod("wanted-0", namespace=NAMESPACE).gpu(1).of_group("wanted").only_on("kind", "big").build()
    return await make_rig(
        [
            node("n1", gpus=2, kind="big"),
            node("n2", gpus=1, kind="small"),
            queue("a", quota=0),
            queue("b", quota=1),
            group("one", "a"),
            *running("one", 1, 1, "n1"),
            group("two", "a"),
            *running("two", 1, 1, "n1"),
            group("wanted", "b"),
            wanted,
            *objects,
        ],
        clock=SystemClock(),
    )


def scheduler(measured: list[CollectorRegistry] | None = None, **options: Any) -> Callable[[Environment], Scheduler]:
    def make(env: Environment) -> Scheduler:
        if measured is not None:
            measured.append(env.metrics)
        return service(env, Options(**{"configuration": GATED, **options}))

    return make


async def reached(gate: Gate) -> None:
    await asyncio.to_thread(gate.reached.wait, 60)
    assert gate.reached.is_set()


async def bind_requests(rig: Rig) -> dict[str, str]:
    return {each.spec.podName: each.spec.selectedNode for each in (await rig.client.list(BindRequest)).items}


async def leaving(rig: Rig) -> set[str]:
    """Those of the pods of `a` that are gone, or being deleted."""
    left = {each.metadata.name for each in (await rig.client.list(Pod)).items if not each.metadata.deletionTimestamp}
    return {"one-0", "two-0"} - left


async def count(measured: list[CollectorRegistry], result: str) -> float:
    return measured[0].get_sample_value("bosket_scheduler_search_findings_total", {"result": result}) or 0.0


async def test_pods_that_have_room_are_bound_while_a_search_is_under_way(gate: Gate) -> None:
    rig = await a_contended_cluster()
    async with rig.running(scheduler()):
        await reached(gate)
        await rig.apply(group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
        found = await rig.until(lambda: bind_requests(rig))
        assert found == {"late-0": "n2"}
        assert not gate.opened.is_set()
        assert await leaving(rig) == set()
        gate.opened.set()
        assert len(await rig.until(lambda: leaving(rig))) == 1


async def test_a_finding_whose_objects_did_not_change_is_applied_as_it_was_found(gate: Gate) -> None:
    rig, measured = await a_contended_cluster(), list[CollectorRegistry]()
    gate.opened.set()
    async with rig.running(scheduler(measured)):
        assert len(await rig.until(lambda: leaving(rig))) == 1
        assert (await count(measured, "applied"), await count(measured, "dropped")) == (1, 0)


async def test_nobody_is_evicted_for_a_job_that_has_got_room_meanwhile(gate: Gate) -> None:
    rig, measured = await a_contended_cluster(), list[CollectorRegistry]()
    async with rig.running(scheduler(measured)):
        await reached(gate)
        await rig.client.delete(Pod, "two-0", NAMESPACE, grace_seconds=0)
        assert await rig.until(lambda: bind_requests(rig)) == {"wanted-0": "n1"}
        gate.opened.set()

        async def dropped() -> bool:
            return await count(measured, "dropped") == 1

        await rig.until(dropped)
        assert await leaving(rig) == {"two-0"}


async def test_a_finding_is_checked_again_when_its_node_has_changed(gate: Gate) -> None:
    """Something else runs on the node by now: the same victim still makes the room."""
    rig, measured = await a_contended_cluster(), list[CollectorRegistry]()
    async with rig.running(scheduler(measured)):
        await reached(gate)
        other = pod("other", namespace=NAMESPACE).running_on("n1").build()
        await rig.apply(other, group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
        await rig.until(lambda: bind_requests(rig))  # by then the scheduler has seen the other pod, too
        gate.opened.set()
        assert len(await rig.until(lambda: leaving(rig))) == 1
        assert (await count(measured, "checked"), await count(measured, "applied")) == (1, 1)


async def test_a_check_tells_nobody_why_they_wait(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """It searches for nobody, and knows less than the search did: here, that a delay is still to pass."""
    reported: list[str] = []
    tell = Applier.report_searched

    async def noted(self: Applier, decisions: Decisions) -> None:
        reported.extend(each.text for each in decisions.waiting if each.job.key.name == "delayed")
        await tell(self, decisions)

    monkeypatch.setattr(Applier, "report_searched", noted)
    delayed = pod_group("delayed", min_member=1, namespace=NAMESPACE, queue="b")
    delayed = msgspec.structs.replace(delayed, spec=msgspec.structs.replace(delayed.spec, preemptionDelay="1h"))
    rig, measured = (
        await a_contended_cluster(delayed, *gang("delayed", 1, gpus=2, namespace=NAMESPACE)),
        list[CollectorRegistry](),
    )
    async with rig.running(scheduler(measured)):
        await reached(gate)
        other = pod("other", namespace=NAMESPACE).running_on("n1").build()
        await rig.apply(other, group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
        await rig.until(lambda: bind_requests(rig))
        gate.opened.set()
        await rig.until(lambda: leaving(rig))
        assert await count(measured, "checked") == 1
    assert reported
    assert all("delay" in text for text in reported)


async def test_a_search_waits_while_many_pods_are_being_bound(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def under_way(own: OwnDecisions) -> int:
        asked.append(len(own._tasks.requests.under_way))
        return asked[-1]

    monkeypatch.setattr(OwnDecisions, "binds_under_way", property(under_way))
    monkeypatch.setattr(search_loop, "MANY_BINDS", 0)
    monkeypatch.setattr(search_loop, "MOST_WAIT_SECONDS", 3600.0)
    rig = await a_contended_cluster(group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
    gate.opened.set()

    async def asked_often() -> bool:
        return len(asked) >= 3

    async with rig.running(scheduler()):
        await rig.until(asked_often)
        assert set(asked) == {1}
        assert not gate.reached.is_set()
        await rig.client.patch(
            BindRequest, "late-0", {"status": {"phase": "Succeeded"}}, namespace=NAMESPACE, subresource="status"
        )
        assert await rig.until(lambda: leaving(rig))


async def test_a_search_does_not_wait_for_ever_for_pods_to_be_bound(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_loop, "MANY_BINDS", 0)
    monkeypatch.setattr(search_loop, "MOST_WAIT_SECONDS", 0.1)
    rig = await a_contended_cluster(group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
    gate.opened.set()
    async with rig.running(scheduler()):
        assert await rig.until(lambda: leaving(rig))  # nobody carries the bind request out


async def test_plugins_are_told_of_what_a_search_found(gate: Gate) -> None:
    rig = await a_contended_cluster()
    gate.opened.set()
    async with rig.running(scheduler()):
        await rig.until(lambda: leaving(rig))
    assert [len(each.evictions) for each in gate.closed if each.evictions] == [1]


async def test_a_gang_one_of_whose_pods_went_while_it_was_decided_on_is_not_bound_in_part(gate: Gate) -> None:
    gate.where = "open"
    rig = await make_rig(
        [node("n1", gpus=8), queue("q"), group("g", "q", 2), *gang("g", 2, namespace=NAMESPACE)], clock=SystemClock()
    )
    async with rig.running(scheduler()):
        await reached(gate)
        await rig.client.delete(Pod, "g-1", NAMESPACE, grace_seconds=0)
        await rig.apply(group("other", "q"), *gang("other", 1, namespace=NAMESPACE))
        gate.opened.set()
        assert await rig.until(lambda: bind_requests(rig)) == {"other-0": "n1"}


async def test_a_scheduler_ends_though_a_search_is_stuck(gate: Gate) -> None:
    rig = await a_contended_cluster()
    async with rig.running(scheduler()) as task:
        await reached(gate)
        task.cancel()
        await asyncio.wait([task])
    assert not gate.opened.is_set()


async def test_another_configuration_is_searched_by_at_once(gate: Gate) -> None:
    """A search by the one before is abandoned; what it finds counts for nothing."""
    rig, made = await a_contended_cluster(), list[Scheduler]()

    def make(env: Environment) -> Scheduler:
        made.append(service(env, Options(configuration=GATED)))
        return made[-1]

    async with rig.running(make):
        await reached(gate)
        made[0].reconfigure(Configuration(actions=("allocate",), plugins=GATED.plugins))
        gate.opened.set()
        await rig.apply(group("late", "b"), *gang("late", 1, namespace=NAMESPACE))
        assert await rig.until(lambda: bind_requests(rig)) == {"late-0": "n2"}
        assert await leaving(rig) == set()
