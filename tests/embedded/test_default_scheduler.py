"""The embedded cluster's default scheduler: pods that name it, or none, are placed without queues; gangs as Kubernetes
describes them (scheduling.k8s.io)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bosket.api.condition import find_condition
from bosket.api.core import Event, Node, Pod
from bosket.api.grove import PodGang
from bosket.api.kai import PodGroup as KaiPodGroup
from bosket.api.keys import DEFAULT_SCHEDULER_NAME, POD_GROUP_ANNOTATION, SCHEDULER_NAME
from bosket.api.object import Condition
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup
from bosket.api.scheduling_k8s.v1beta1 import PodGroup
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import NodeShape
from bosket.embedded.services import DEFAULT_SERVICES
from bosket.kube.client import Client
from bosket.kube.errors import Invalid
from bosket.runtime.clock import LoopClock

RACK = "bosket.dev/rack"
pytestmark = pytest.mark.looptime


class World:
    """A cluster in virtual time, with what its user does."""

    def __init__(self, cluster: EmbeddedCluster, clock: LoopClock) -> None:
        self.cluster, self.client, self._clock = cluster, cluster.client(), clock

    async def pod(self, name: str, *, gpus: int = 1, group: str = "", run_seconds: int = 0, **spec: Any) -> Pod:
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        annotations = {"bosket.dev/run-duration": f"{run_seconds}s"} if run_seconds else {}
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        await self.client.create({**manifest, "spec": {"containers": [container], **spec}})
        return await self.client.get(Pod, name, "default")

    async def group(self, name: str, minimum: int = 0, *, rack: bool = False, parent: str = "") -> None:
        policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
        await self._create("v1beta1", "PodGroup", name, policy, rack=rack, parent=parent)

    async def composite(self, name: str, minimum: int, *, rack: bool = False, parent: str = "") -> None:
        policy = {"gang": {"minGroupCount": minimum}}
        await self._create("v1alpha3", "CompositePodGroup", name, policy, rack=rack, parent=parent)

    async def _create(
        self, version: str, kind: str, name: str, policy: Mapping[str, object], *, rack: bool, parent: str
    ) -> None:
        spec: dict[str, object] = {"schedulingPolicy": policy}
        if rack:
            spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
        if parent:
            spec["parentCompositePodGroupName"] = parent
            spec["workloadRef"] = {"workloadName": "w", "templateName": name}
        api_version = f"scheduling.k8s.io/{version}"
        metadata = {"name": name, "namespace": "default"}
        await self.client.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})

    async def nodes(self, prefix: str = "") -> dict[str, str]:
        """Where pods are, by name; empty for those that wait."""
        pods = (await self.client.list(Pod, "default")).items
        return {pod.metadata.name: pod.spec.nodeName for pod in pods if pod.metadata.name.startswith(prefix)}

    async def until_placed(self, *names: str) -> dict[str, str]:
        async with asyncio.timeout(120):
            while True:
                nodes = await self.nodes()
                if all(nodes.get(name) for name in names):
                    return nodes
                await self._clock.sleep(0.2)

    async def racks(self) -> dict[str, str]:
        return {node.metadata.name: node.metadata.labels[RACK] for node in (await self.client.list(Node)).items}

    async def settle(self, seconds: float = 10) -> None:
        await self._clock.sleep(seconds)


@asynccontextmanager
async def world(*, nodes: int = 2, gpus: int = 4, racks: int = 1, **options: Any) -> AsyncIterator[World]:
    clock = LoopClock()
    options.setdefault("services", ("binder",))
    async with EmbeddedCluster(nodes=nodes, shape=NodeShape(gpus=gpus), racks=racks, clock=clock, **options) as cluster:
        await cluster.wait_ready()
        yield World(cluster, clock)


def scheduled(group: PodGroup | CompositePodGroup) -> Condition | None:
    kind = "PodGroup" if isinstance(group, PodGroup) else "CompositePodGroup"
    return find_condition(group.status.conditions, f"{kind}InitiallyScheduled")


async def verdict(client: Client, name: str) -> Condition | None:
    return scheduled(await client.get(PodGroup, name, "default"))


async def test_a_pod_that_names_no_scheduler_is_placed_and_has_no_queue() -> None:
    async with world() as w:
        made = await w.pod("alone")
        assert made.spec.schedulerName == DEFAULT_SCHEDULER_NAME
        await w.until_placed("alone")
        await w.settle(1)
        assert not (await w.client.list(KaiPodGroup)).items
        assert POD_GROUP_ANNOTATION not in (await w.client.get(Pod, "alone", "default")).metadata.annotations


async def test_pods_that_name_none_are_kais_where_the_user_says_so() -> None:
    async with world(default_scheduler=SCHEDULER_NAME, services=DEFAULT_SERVICES) as w:
        assert (await w.pod("alone")).spec.schedulerName == SCHEDULER_NAME
        named = await w.pod("named", schedulerName=DEFAULT_SCHEDULER_NAME)
        assert named.spec.schedulerName == DEFAULT_SCHEDULER_NAME
        await w.until_placed("alone", "named")
        assert len((await w.client.list(KaiPodGroup)).items) == 1


async def test_a_gang_starts_as_a_whole_and_its_pod_group_says_so() -> None:
    async with world() as w:
        await w.group("g", 3)
        for index in range(2):
            await w.pod(f"g-{index}", group="g")
        await w.settle()
        assert set((await w.nodes()).values()) == {""}
        await w.pod("g-2", group="g")
        await w.until_placed("g-0", "g-1", "g-2")
        await w.settle(1)
        said = await verdict(w.client, "g")
        assert said is not None
        assert (said.status, said.reason) == ("True", "Scheduled")


async def test_a_gang_that_does_not_fit_waits_as_a_whole_and_says_why_until_there_is_room() -> None:
    async with world() as w:
        await w.pod("blocker", gpus=4)
        await w.until_placed("blocker")
        await w.group("g", 2)
        for index in range(2):
            await w.pod(f"g-{index}", gpus=4, group="g")
        await w.settle()
        assert set((await w.nodes("g-")).values()) == {""}
        said = await verdict(w.client, "g")
        assert said is not None
        assert (said.status, said.reason) == ("False", "Unschedulable")
        assert "Resources were found for 1 pods while 2 are required" in said.message
        events = (await w.client.list(Event, "default")).items
        assert {e.involvedObject.apiVersion for e in events if e.involvedObject.kind == "PodGroup"} == {
            "scheduling.k8s.io/v1beta1"
        }
        await w.client.delete(Pod, "blocker", "default", grace_seconds=0)
        await w.until_placed("g-0", "g-1")
        await w.settle(1)
        said = await verdict(w.client, "g")
        assert said is not None
        assert said.status == "True"


async def test_what_was_scheduled_once_stays_so_in_the_status() -> None:
    async with world() as w:
        await w.group("g", 1)
        await w.pod("g-0", gpus=4, group="g")
        await w.until_placed("g-0")
        await w.settle(1)
        await w.pod("g-1", gpus=8, group="g")
        await w.settle()
        said = await verdict(w.client, "g")
        assert said is not None
        assert said.status == "True"


async def test_a_gang_with_a_topology_shares_one_domain() -> None:
    async with world(nodes=4, racks=2) as w:
        await w.pod("elsewhere", gpus=3)
        await w.until_placed("elsewhere")
        await w.group("g", 2, rack=True)
        for index in range(2):
            await w.pod(f"g-{index}", gpus=4, group="g")
        nodes, racks = await w.until_placed("g-0", "g-1"), await w.racks()
        assert len({racks[nodes[f"g-{index}"]] for index in range(2)}) == 1


async def test_a_basic_group_lets_its_pods_start_one_by_one() -> None:
    async with world() as w:
        await w.group("g")
        await w.pod("g-0", gpus=8, group="g")
        await w.pod("g-1", gpus=4, group="g")
        await w.until_placed("g-1")
        assert (await w.nodes())["g-0"] == ""


async def test_groups_of_a_composite_start_together_or_not_at_all() -> None:
    async with world(nodes=3) as w:
        await w.composite("all", 2)
        await w.group("a", 1, parent="all")
        await w.group("b", 1, parent="all")
        await w.pod("a-0", gpus=4, group="a")
        await w.settle()
        assert (await w.nodes())["a-0"] == ""
        await w.pod("b-0", gpus=4, group="b")
        await w.until_placed("a-0", "b-0")
        await w.settle(1)
        said = scheduled(await w.client.get(CompositePodGroup, "all", "default"))
        assert said is not None
        assert said.status == "True"


async def test_a_pod_waits_for_the_group_that_it_names() -> None:
    async with world() as w:
        await w.pod("g-0", group="g")
        await w.settle()
        assert (await w.nodes())["g-0"] == ""
        await w.group("g", 1)
        await w.until_placed("g-0")


async def test_a_higher_priority_takes_the_place_of_a_lower_one_unless_it_may_not() -> None:
    async with world(nodes=1) as w:
        classes: dict[str, Callable[[], dict[str, Any]]] = {
            "high": lambda: {"value": 1000},
            "polite": lambda: {"value": 2000, "preemptionPolicy": "Never"},
        }
        for name, said in classes.items():
            manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await w.client.create({**manifest, **said()})
        await w.pod("low", gpus=4)
        await w.until_placed("low")
        await w.pod("waits", gpus=4, priorityClassName="polite")
        await w.settle()
        assert await w.nodes() == {"low": "node-000", "waits": ""}
        await w.client.delete(Pod, "waits", "default", grace_seconds=0)
        await w.pod("urgent", gpus=4, priorityClassName="high")
        await w.until_placed("urgent")
        assert "low" not in await w.nodes()


async def test_both_schedulers_count_what_the_other_has_given_away() -> None:
    async with world(nodes=1, gpus=4, services=DEFAULT_SERVICES) as w:
        for index in range(4):
            await w.pod(f"default-{index}", gpus=1)
            await w.pod(f"kai-{index}", gpus=1, schedulerName=SCHEDULER_NAME)
        await w.settle(30)
        pods = (await w.client.list(Pod, "default")).items
        assert sum(pod.status.phase == "Running" for pod in pods) == 4
        assert sum(bool(pod.spec.nodeName) for pod in pods if pod.status.phase == "Pending") == 0


async def test_a_pod_clique_set_that_names_no_scheduler_is_a_gang_of_its() -> None:
    def clique(name: str, replicas: int) -> dict[str, Any]:
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
        return {"name": name, "spec": {"replicas": replicas, "podSpec": {"containers": [container]}}}

    async with world(nodes=3, services=DEFAULT_SERVICES) as w:
        await w.pod("blocker", gpus=4)
        await w.until_placed("blocker")
        manifest = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}
        cliques = [clique("leader", 1), clique("worker", 2)]
        spec = {"replicas": 1, "template": {"cliques": cliques}}
        await w.client.create({**manifest, "metadata": {"name": "s", "namespace": "default"}, "spec": spec})
        await w.settle(20)
        assert set((await w.nodes("s-")).values()) == {""}, "it starts as a whole or not at all"
        (gang,) = (await w.client.list(PodGang, "default")).items
        assert gang.metadata.labels["grove.io/scheduler-backend"] == "default"
        await w.client.delete(Pod, "blocker", "default", grace_seconds=0)
        await w.until_placed(*await w.nodes("s-"))
        await w.settle(5)
        pods = [pod for pod in (await w.client.list(Pod, "default")).items if pod.metadata.name.startswith("s-")]
        assert [(pod.spec.schedulerName, pod.status.phase) for pod in pods] == [(DEFAULT_SCHEDULER_NAME, "Running")] * 3
        assert (await w.client.get(PodGang, gang.metadata.name, "default")).status.phase == "Running"


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({}, "must specify one of: `basic`, `gang`"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "must specify exactly one of: `basic`, `gang`"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "must be greater than or equal to 1"),
        (
            {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "must have at most 1 item",
        ),
        ({"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "p"}, "spec.workloadRef: Required value"),
    ],
)
async def test_groups_that_make_no_sense_are_refused(spec: dict[str, Any], refusal: str) -> None:
    async with world(nodes=0) as w:
        manifest = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        with pytest.raises(Invalid, match=refusal):
            await w.client.create({**manifest, "spec": spec}, namespace="default")


async def test_of_a_group_only_the_minimum_can_be_changed() -> None:
    async with world(nodes=0) as w:
        await w.group("g", 2)
        changed = await w.client.patch(
            PodGroup, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, namespace="default"
        )
        assert changed.metadata.generation == 2
        with pytest.raises(Invalid, match="field is immutable"):
            await w.client.patch(PodGroup, "g", {"spec": {"priorityClassName": "train"}}, namespace="default")
        policy: dict[str, Any] = {"gang": None, "basic": {}}
        with pytest.raises(Invalid, match="cannot be cleared once set"):
            await w.client.patch(PodGroup, "g", {"spec": {"schedulingPolicy": policy}}, namespace="default")


async def test_pods_wait_where_its_work_is_left_to_another() -> None:
    async with world(without=(DEFAULT_SCHEDULER_NAME,)) as w:
        await w.pod("alone")
        await w.settle()
        assert await w.nodes() == {"alone": ""}
        assert "wait for a scheduler" in w.cluster.said_of_schedulers


async def test_of_two_schedulers_that_give_away_the_same_one_decides_anew() -> None:
    async with world(nodes=2, gpus=4, services=DEFAULT_SERVICES) as w:
        names = []
        for index in range(24):
            scheduler = (DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME)[index % 2]
            names.append(f"p-{index:02}")
            await w.pod(names[-1], schedulerName=scheduler, restartPolicy="Never", run_seconds=3)
        async with asyncio.timeout(600):
            while True:
                phases = {pod.status.phase for pod in (await w.client.list(Pod, "default")).items}
                if phases <= {"Succeeded", "Failed"}:
                    break
                await w.settle(1)
        assert phases == {"Succeeded"}
