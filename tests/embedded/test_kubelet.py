"""The kubelet on a real (embedded) API server: pods are bound by hand, time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from bosket.api.coordination import Lease
from bosket.api.core import (
    Container,
    Node,
    NodeCondition,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from bosket.api.object import ObjectMeta
from bosket.api.time import format_time
from bosket.apiserver import ApiServer
from bosket.embedded.kubelet import Kubelet
from bosket.embedded.node import Layout, NodeShape, host_address, simulated_node
from bosket.embedded.node_lifecycle import NodeLifecycle
from bosket.embedded.taint_eviction import TaintEviction, stays_until
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Informers
from bosket.runtime.clock import LoopClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, Service, run_services

pytestmark = pytest.mark.looptime

SHAPE = NodeShape(gpus=4, cpu="8", memory="16Gi")


class World:
    """An API server, some simulated nodes, and a kubelet that can be taken away and brought back."""

    def __init__(self, nodes: int = 2) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock)
        self.client = Client(self.server.transport(), clock=self.clock)
        self.nodes = nodes

    async def populate(self) -> None:
        for index in range(self.nodes):
            await self.client.create(simulated_node(index, Layout(self.nodes), SHAPE, self.clock.now()))

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[None]:
        client = Client(self.server.transport(), clock=self.clock)
        environment = Environment(
            client=client,
            informers=Informers(client),
            clock=self.clock,
            events=EventRecorder(client, self.clock, "test"),
            metrics=CollectorRegistry(),
        )
        services: list[Service] = [
            NodeLifecycle(environment, shape=SHAPE),
            TaintEviction(environment),
            Kubelet(environment),
        ]
        task = asyncio.create_task(run_services(environment, services, leader_election=False))
        try:
            await environment.informers.wait_synced()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def bind(
        self, name: str, node: str = "node-000", *, gpus: int = 1, policy: str = "Never", **simulation: str
    ) -> Pod:
        annotations = {f"bosket.dev/{key.replace('_', '-')}": value for key, value in simulation.items()}
        resources = ResourceRequirements(requests={"nvidia.com/gpu": gpus}, limits={"nvidia.com/gpu": gpus})
        pod = await self.client.create(
            Pod(
                metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
                spec=PodSpec(
                    restartPolicy=policy, containers=(Container(name="main", image="i", resources=resources),)
                ),
            )
        )
        await self.client.bind(pod, node)
        return pod

    async def pod(self, name: str) -> Pod:
        return await self.client.get(Pod, name, "default")

    async def until(self, name: str, holds: Callable[[Pod], bool], within: float = 3600.0) -> Pod:
        """The pod as soon as it is as wanted."""
        async with asyncio.timeout(within):
            while True:
                pod = await self.pod(name)
                if holds(pod):
                    return pod
                await self.clock.sleep(0.05)

    async def until_gone(self, name: str, within: float = 3600.0) -> None:
        with pytest.raises(NotFound):
            await self.until(name, lambda _: False, within)

    async def set_ready(self, node: str, status: str) -> None:
        before = await self.client.get(Node, node)
        conditions = tuple(
            replace(condition, status=status) if condition.type == "Ready" else condition
            for condition in before.status.conditions
        )
        await self.client.modify(
            before, replace(before, status=replace(before.status, conditions=conditions)), subresource="status"
        )


def in_phase(phase: str) -> Callable[[Pod], bool]:
    return lambda pod: pod.status.phase == phase


@pytest.fixture
async def world() -> World:
    world = World()
    await world.populate()
    return world


async def test_a_bound_pod_runs_and_succeeds_after_its_duration(world: World) -> None:
    async with world.kubelet():
        await world.bind("p", run_duration="90s")
        running = await world.until("p", in_phase("Running"), within=1)
        assert running.status.podIP.startswith("10.")
        assert running.status.hostIP == host_address(await world.client.get(Node, "node-000"))
        started = world.clock.now()
        await world.until("p", in_phase("Succeeded"))
        assert world.clock.now() - started == pytest.approx(90, abs=1)


async def test_running_costs_one_status_write(world: World) -> None:
    async with world.kubelet():
        pod = await world.bind("p")
        await world.until("p", in_phase("Running"))
        versions = []
        events = world.client.watch(Pod, "default", resource_version=pod.metadata.resourceVersion, timeout_seconds=1)
        async for event in events:
            if event.type == "MODIFIED" and event.object is not None:
                versions.append((event.object.spec.nodeName, event.object.status.phase))
        assert versions == [("node-000", "Pending"), ("node-000", "Running")]


async def test_what_a_node_has_no_room_for_fails_there_and_nothing_else_does(world: World) -> None:
    async with world.kubelet():
        await world.bind("a", gpus=3)
        await world.until("a", in_phase("Running"))
        await world.bind("b", gpus=2)
        refused = await world.until("b", in_phase("Failed"))
        assert refused.status.reason == "OutOfnvidia.com/gpu"
        assert "requested 2, used 3, allocatable 4" in refused.status.message
        await world.bind("c", gpus=1)
        await world.until("c", in_phase("Running"))


async def test_room_is_there_again_once_a_pod_has_ended(world: World) -> None:
    async with world.kubelet():
        await world.bind("a", gpus=4, run_duration="10s")
        await world.until("a", in_phase("Succeeded"))
        await world.bind("b", gpus=4)
        await world.until("b", in_phase("Running"))


async def test_a_kubelet_that_starts_anew_goes_on_where_the_last_one_stopped(world: World) -> None:
    async with world.kubelet():
        await world.bind("a", gpus=3, run_duration="60s")
        started = world.clock.now()
        await world.until("a", in_phase("Running"))
    await world.bind("b", gpus=2)
    await world.bind("c", gpus=1)
    await world.clock.sleep(30)
    async with world.kubelet():
        # The pod that ran already keeps its GPUs, so that b is still too much and c is not.
        await world.until("b", in_phase("Failed"), within=1)
        running = await world.until("c", in_phase("Running"), within=1)
        assert running.status.podIP != (await world.pod("a")).status.podIP
        await world.until("a", in_phase("Succeeded"))
        assert world.clock.now() - started == pytest.approx(60, abs=1.1)


async def test_a_deleted_pod_goes_after_its_stop_delay(world: World) -> None:
    async with world.kubelet():
        await world.bind("quick")
        await world.bind("slow", stop_delay="7s")
        await world.until("quick", in_phase("Running"))
        await world.until("slow", in_phase("Running"))
        asked = world.clock.now()
        await world.client.delete(Pod, "slow", "default", grace_seconds=30)
        await world.client.delete(Pod, "quick", "default", grace_seconds=30)
        await world.until_gone("quick", within=1)
        await world.until_gone("slow")
        assert world.clock.now() - asked == pytest.approx(7, abs=0.2)


async def test_a_pod_deleted_before_anybody_saw_it_is_taken_away(world: World) -> None:
    await world.bind("p")
    await world.client.delete(Pod, "p", "default", grace_seconds=30)
    async with world.kubelet():
        await world.until_gone("p", within=1)


async def test_a_container_that_keeps_failing_is_restarted_with_growing_pauses(world: World) -> None:
    async with world.kubelet():
        await world.bind("p", policy="OnFailure", run_duration="1s", exit_code="2")
        pod = await world.until(
            "p", lambda pod: bool(pod.status.containerStatuses and pod.status.containerStatuses[0].restartCount == 3)
        )
        assert pod.status.phase == "Running"
        assert world.clock.monotonic() == pytest.approx(1 + 1 + 10 + 1 + 20, abs=3)


async def test_an_annotation_without_meaning_fails_the_pod_with_its_name(world: World) -> None:
    async with world.kubelet():
        await world.bind("p", run_duration="soon")
        failed = await world.until("p", in_phase("Failed"), within=1)
        assert failed.status.reason == "InvalidAnnotation"
        assert 'bosket.dev/run-duration: "soon"' in failed.status.message


async def test_pods_of_a_node_that_is_not_ready_stay_as_they_are_until_it_is(world: World) -> None:
    async with world.kubelet():
        await world.bind("a", run_duration="5s")
        await world.until("a", in_phase("Running"))
        await world.set_ready("node-000", "False")
        await world.bind("b")
        await world.clock.sleep(60)
        assert (await world.pod("a")).status.phase == "Running"
        assert (await world.pod("b")).status.phase == "Pending"
        node = await world.client.get(Node, "node-000")
        assert {taint.key for taint in node.spec.taints} == {"node.kubernetes.io/not-ready"}
        await world.set_ready("node-000", "True")
        await world.until("a", in_phase("Succeeded"), within=1)
        await world.until("b", in_phase("Running"), within=1)
        node = await world.client.get(Node, "node-000")
        assert node.spec.taints == ()


async def test_a_cordoned_node_is_tainted_and_goes_on_working(world: World) -> None:
    async with world.kubelet():
        await world.client.patch(Node, "node-001", {"spec": {"unschedulable": True}})
        await world.bind("p", "node-001")
        await world.until("p", in_phase("Running"), within=1)
        node = await world.client.get(Node, "node-001")
        assert [(taint.key, taint.effect) for taint in node.spec.taints] == [
            ("node.kubernetes.io/unschedulable", "NoSchedule")
        ]
        await world.client.patch(Node, "node-001", {"spec": {"unschedulable": None}})
        await world.clock.sleep(1)
        assert (await world.client.get(Node, "node-001")).spec.taints == ()


async def test_a_node_that_a_user_adds_gets_a_kubelet(world: World) -> None:
    async with world.kubelet():
        annotations = {"bosket.dev/simulated": "true"}
        await world.client.create(Node(metadata=ObjectMeta(name="mine", annotations=annotations)))
        await world.bind("p", "mine")
        await world.until("p", in_phase("Running"), within=1)
        node = await world.client.get(Node, "mine")
        assert node.status.allocatable["nvidia.com/gpu"] == "4"
        assert node.metadata.labels["kubernetes.io/hostname"] == "mine"
        assert node.metadata.labels["nvidia.com/gpu.count"] == "4"
        assert NodeCondition(type="Ready", status="True") in [
            NodeCondition(type=condition.type, status=condition.status) for condition in node.status.conditions
        ]
        lease = await world.client.get(Lease, "mine", "kube-node-lease")
        assert lease.spec.holderIdentity == "mine"


async def test_a_node_without_the_annotation_is_left_alone(world: World) -> None:
    async with world.kubelet():
        await world.client.create(Node(metadata=ObjectMeta(name="real")))
        await world.bind("p", "real")
        await world.clock.sleep(60)
        assert (await world.pod("p")).status.phase == "Pending"


async def test_pods_of_a_deleted_node_are_taken_away(world: World) -> None:
    async with world.kubelet():
        await world.bind("p", "node-001")
        await world.until("p", in_phase("Running"))
        await world.client.delete(Node, "node-001")
        await world.until_gone("p", within=5)


async def test_a_ready_node_renews_its_lease_now_and_then(world: World) -> None:
    async with world.kubelet():
        await world.clock.sleep(1)
        first = await world.client.get(Lease, "node-000", "kube-node-lease")
        await world.clock.sleep(1300)
        later = await world.client.get(Lease, "node-000", "kube-node-lease")
        assert first.spec.renewTime != later.spec.renewTime


async def test_a_taint_drives_away_the_pods_that_do_not_tolerate_it(world: World) -> None:
    async with world.kubelet():
        await world.bind("here")
        await world.bind("elsewhere", "node-001")
        await world.until("here", in_phase("Running"))
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await world.client.patch(Node, "node-000", {"spec": {"taints": [taint]}})
        await world.until_gone("here", within=5)
        await world.bind("late")
        await world.until_gone("late", within=5)
        node = await world.client.get(Node, "node-000")
        assert [taint.timeAdded is not None for taint in node.spec.taints] == [True]
        assert (await world.pod("elsewhere")).metadata.deletionTimestamp is None


async def test_pods_of_a_failed_node_are_asked_to_go_after_five_minutes(world: World) -> None:
    async with world.kubelet():
        await world.bind("p")
        await world.until("p", in_phase("Running"))
        await world.set_ready("node-000", "Unknown")
        await world.clock.sleep(290)
        assert (await world.pod("p")).metadata.deletionTimestamp is None
        pod = await world.until("p", lambda pod: pod.metadata.deletionTimestamp is not None, within=15)
        assert pod.status.phase == "Running"  # nobody is there to stop it
        await world.set_ready("node-000", "True")
        await world.until_gone("p", within=5)


@pytest.mark.parametrize(
    ("tolerations", "until"),
    [
        ([], 0.0),
        ([Toleration(operator="Exists")], None),
        ([Toleration(key="k", operator="Exists", effect="NoExecute")], None),
        ([Toleration(key="k", value="v")], None),
        ([Toleration(key="k", value="other")], 0.0),
        ([Toleration(key="k", operator="Exists", effect="NoSchedule")], 0.0),
        ([Toleration(key="k", operator="Exists", tolerationSeconds=60)], 60.0),
        ([Toleration(operator="Exists"), Toleration(key="k", value="v", tolerationSeconds=5)], 5.0),
    ],
)
def test_tolerations_say_how_long_a_pod_stays(tolerations: list[Toleration], until: float | None) -> None:
    taint = Taint(key="k", value="v", effect="NoExecute", timeAdded=format_time(0.0))
    assert stays_until(tolerations, [taint], 0.0) == until
