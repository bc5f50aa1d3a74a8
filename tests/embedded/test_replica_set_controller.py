"""A ReplicaSet has as many pods as it asks for, and those it can spare go first."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bosket.api.apps import ReplicaSet, ReplicaSetSpec
from bosket.api.core import Pod
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.embedded.controllers.pod_control import PodControl
from bosket.embedded.controllers.pods import in_order_of_deletion, pod_of
from tests.embedded.wires import LateWatch, Refusing
from tests.embedded.workloads import Workloads, condition, fail, template, workloads

pytestmark = pytest.mark.looptime


def replica_set(replicas: int, name: str = "r", **spec: Any) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ReplicaSetSpec(
            replicas=replicas, selector=LabelSelector(matchLabels={"app": "a"}), template=template(), **spec
        ),
    )


async def has_ready(world: Workloads, count: int) -> bool:
    status = (await world.get(ReplicaSet, "r")).status
    return status.readyReplicas == status.replicas == count == len(await world.running())


async def scale(world: Workloads, replicas: int) -> None:
    await world.client.patch(ReplicaSet, "r", {"spec": {"replicas": replicas}}, namespace="default")
    await world.until(lambda: has_ready(world, replicas))


async def test_pods_come_and_go_with_the_size_and_the_status_tells() -> None:
    async with workloads() as world:
        await world.client.create(replica_set(3))
        await world.until(lambda: has_ready(world, 3))
        found = await world.get(ReplicaSet, "r")
        assert found.status.observedGeneration == found.metadata.generation
        assert (found.status.availableReplicas, found.status.fullyLabeledReplicas) == (3, 3)
        assert all(pod.metadata.name.startswith("r-") for pod in await world.pods())
        await scale(world, 5)
        await scale(world, 1)
        await scale(world, 0)
        assert len(await world.events("SuccessfulDelete")) == 5


async def test_a_pod_that_fails_or_is_deleted_is_replaced() -> None:
    async with workloads() as world:
        await world.client.create(replica_set(2))
        await world.until(lambda: has_ready(world, 2))
        first, second = await world.pods()
        await fail(world, first)
        await world.client.delete(Pod, second.metadata.name, "default")
        await asyncio.sleep(10)
        assert await has_ready(world, 2)
        assert {first.metadata.name, second.metadata.name}.isdisjoint(
            {pod.metadata.name for pod in await world.running()}
        )


async def test_a_pod_is_available_only_after_it_was_ready_for_long_enough() -> None:
    async with workloads() as world:
        await world.client.create(replica_set(2, minReadySeconds=30))
        await world.until(lambda: has_ready(world, 2))
        assert (await world.get(ReplicaSet, "r")).status.availableReplicas == 0
        await asyncio.sleep(32)
        assert (await world.get(ReplicaSet, "r")).status.availableReplicas == 2


async def test_orphans_that_it_selects_are_taken_in_and_pods_that_it_no_longer_selects_are_let_go() -> None:
    async with workloads() as world:
        stray = pod_of(replica_set(1), template(), name="stray")
        stray = Pod(metadata=ObjectMeta(name="stray", namespace="default", labels={"app": "a"}), spec=stray.spec)
        await world.client.create(stray)
        other = ObjectMeta(name="other", namespace="default", labels={"app": "b"})
        await world.client.create(Pod(metadata=other, spec=stray.spec))
        await world.client.create(replica_set(2))
        await asyncio.sleep(5)
        owned = [pod.metadata.name for pod in await world.pods() if pod.metadata.ownerReferences]
        assert len(owned) == 2
        assert "stray" in owned
        await world.client.patch(Pod, "stray", {"metadata": {"labels": {"app": "elsewhere"}}}, namespace="default")
        await asyncio.sleep(5)
        owned = [pod.metadata.name for pod in await world.pods() if pod.metadata.ownerReferences]
        assert len(owned) == 2
        assert "stray" not in owned
        assert len(await world.running()) == 4


async def test_what_the_server_refuses_is_told_in_a_condition_until_it_relents() -> None:
    world = Workloads()
    refusing = Refusing(world.server.transport())
    async with world.with_node(), world.controlling(lambda _: refusing):
        await world.client.create(replica_set(2))
        await asyncio.sleep(5)
        failure = condition(await world.get(ReplicaSet, "r"), "ReplicaFailure")
        assert (failure.status, failure.reason, failure.message) == ("True", "FailedCreate", "exceeded quota")
        assert await world.events("FailedCreate") == ["Error creating: exceeded quota"]
        refusing.refusing = False
        await world.until(lambda: has_ready(world, 2), 120)
        assert condition(await world.get(ReplicaSet, "r"), "ReplicaFailure") is None


async def test_stale_caches_make_and_delete_no_pod_too_many() -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(LateWatch):
        await world.client.create(replica_set(6))
        await world.until(lambda: has_ready(world, 6))
        await scale(world, 2)
        await asyncio.sleep(20)
        assert await has_ready(world, 2)
        assert len(await world.events("SuccessfulCreate")) == 6
        assert len(await world.events("SuccessfulDelete")) == 4


async def test_a_pod_that_is_going_is_not_taken_for_one_that_stays_when_news_of_another_come_first() -> None:
    """The deletion of one pod is not visible yet when the cache learns that another would have been the better one."""
    world = Workloads()
    async with world.with_node(), world.controlling(LateWatch):
        await world.client.create(replica_set(3))
        await world.until(lambda: has_ready(world, 3))
        await asyncio.sleep(20)
        await world.client.patch(ReplicaSet, "r", {"spec": {"replicas": 2}}, namespace="default")
        await asyncio.sleep(0.1)
        spared = in_order_of_deletion(await world.pods())[-1]
        cheap = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}}
        await world.client.patch(Pod, spared.metadata.name, cheap, namespace="default")
        await asyncio.sleep(20)
        assert len(await world.events("SuccessfulDelete")) == 1
        assert spared.metadata.name in [pod.metadata.name for pod in await world.running()]


async def test_nothing_is_taken_in_for_an_owner_that_is_gone() -> None:
    world = Workloads()
    async with world.with_node():
        environment = world.environment()
        control = PodControl(environment, "test")
        orphan = ObjectMeta(name="orphan", namespace="default", labels={"app": "a"})
        await world.client.create(Pod(metadata=orphan, spec=template().spec))
        async with world.run(environment, []):
            gone = replica_set(1)
            assert await control.claim(gone, gone.spec.selector) == []
        assert (await world.get(Pod, "orphan")).metadata.ownerReferences == ()


def a_pod(name: str, **how: Any) -> Pod:
    ready_at = how.pop("ready_at", None)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready_at}] if ready_at else []
    container = {"name": "c", "ready": True, "restartCount": how.pop("restarts", 0), "image": "", "imageID": ""}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "creationTimestamp": how.pop("created", "2025-01-01T00:00:00Z"),
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": how.pop("cost", "0")},
            },
            "spec": {"nodeName": how.pop("node", "n")},
            "status": {
                "phase": how.pop("phase", "Running"),
                "conditions": conditions,
                "containerStatuses": [container],
            },
        },
        Pod,
    )


def test_pods_that_would_be_missed_least_go_first() -> None:
    early, late = "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"
    in_order = [
        a_pod("unassigned", node="", phase="Pending"),
        a_pod("pending", phase="Pending"),
        a_pod("not-ready"),
        a_pod("cheap", ready_at=early, cost="-5"),
        a_pod("crowded", ready_at=early, node="full"),
        a_pod("crowded-too", ready_at=early, node="full"),
        a_pod("served-shortly", ready_at=late, node="m"),
        a_pod("restarted", ready_at=early, restarts=3, node="m2"),
        a_pod("young", ready_at=early, created=late, node="m3"),
        a_pod("old", ready_at=early, node="m4"),
        a_pod("dear", ready_at=early, cost="7", node="m5"),
    ]
    assert [pod.metadata.name for pod in in_order_of_deletion(reversed(in_order))] == [
        pod.metadata.name for pod in in_order
    ]
