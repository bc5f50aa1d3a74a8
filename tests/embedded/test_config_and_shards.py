"""`bosket up` follows Config and SchedulingShards as a cluster with the operator does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bosket.api.condition import has_condition
from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import Container, Node, Pod, PodSpec, ResourceRequirements
from bosket.api.kai import Config, Queue, QueueResource, QueueResources, QueueSpec, SchedulingShard, SchedulingShardSpec
from bosket.api.object import ObjectMeta
from bosket.api.time import format_micro_time
from bosket.cli.interpretation import interpret
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.in_process_operator import followed, process_notes
from bosket.embedded.node import NodeShape
from bosket.kube.client import Client
from bosket.kube.errors import ApiError
from bosket.runtime.clock import LoopClock
from bosket.scheduler.options import Options
from bosket.services.operator.shard import UNDERSTOOD_ARGUMENTS

pytestmark = pytest.mark.looptime

POOL = "kai.scheduler/node-pool"


class Laptop:
    """A cluster as `bosket up` starts it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster, self.client = cluster, cluster.client()

    async def until(self, condition: Callable[[], Awaitable[Any]]) -> Any:
        async with asyncio.timeout(120):
            while not (found := await condition()):
                await self.cluster.clock.sleep(0.2)
        return found

    async def place(self, name: str, **labels: Any) -> str:
        """The node of a new pod with one GPU."""
        await self.create(name, **labels)

        async def bound() -> str:
            return (await self.client.get(Pod, name, "default")).spec.nodeName

        node: str = await self.until(bound)
        return node

    async def create(self, name: str, annotations: dict[str, str] | None = None, **labels: str) -> None:
        resources = ResourceRequirements() if annotations else ResourceRequirements(limits={"nvidia.com/gpu": 1})
        said = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
        metadata = ObjectMeta(name=name, namespace="default", labels=said, annotations=annotations or {})
        container = Container(name="main", image="i", resources=resources)
        await self.client.create(
            Pod(metadata=metadata, spec=PodSpec(containers=(container,), schedulerName="kai-scheduler"))
        )

    async def stays_pending(self, name: str) -> bool:
        await self.cluster.clock.sleep(10)
        return not (await self.client.get(Pod, name, "default")).spec.nodeName

    async def patch(self, kind: Any, name: str, spec: dict[str, Any]) -> None:
        await self.client.patch(kind, name, {"spec": spec})

        async def told() -> bool:
            found = await self.client.get(kind, name)
            return any(each.observedGeneration == found.metadata.generation for each in found.status.conditions)

        await self.until(told)

    async def message(self, kind: Any, name: str, type_: str = "Deployed") -> str:
        found = await self.client.get(kind, name)
        return str(next(each.message for each in found.status.conditions if each.type == type_))


@asynccontextmanager
async def laptop(**options: Any) -> AsyncIterator[Laptop]:
    cluster = EmbeddedCluster(nodes=3, shape=NodeShape(gpus=4), clock=LoopClock(), interpret=interpret, **options)
    async with cluster:
        await cluster.wait_ready()
        yield Laptop(cluster)


async def is_ready(client: Client, kind: Any, name: str) -> bool:
    return has_condition((await client.get(kind, name)).status.conditions, "Ready")


async def test_a_fresh_cluster_has_a_config_and_a_shard_that_is_followed_when_it_is_patched() -> None:
    async with laptop() as here:

        async def both() -> bool:
            return await is_ready(here.client, Config, "kai-config") and await is_ready(
                here.client, SchedulingShard, "default"
            )

        await here.until(both)
        packed = {await here.place(name) for name in ("a", "b")}
        await here.patch(SchedulingShard, "default", {"placementStrategy": {"gpu": "spread", "cpu": "spread"}})
        spread = {await here.place(name) for name in ("c", "d")}
    assert len(packed) == 1
    assert len(spread | packed) == 3


async def test_flags_are_followed_and_what_cannot_be_followed_is_told_and_changes_nothing() -> None:
    async with laptop() as here:
        first = await here.place("a")
        await here.patch(SchedulingShard, "default", {"args": {"restrict-node-scheduling": "true"}})
        await here.create("b")
        assert await here.stays_pending("b")  # no node has the label for pods with GPUs
        await here.patch(SchedulingShard, "default", {"args": None})

        async def bound() -> str:
            return (await here.client.get(Pod, "b", "default")).spec.nodeName

        assert await here.until(bound)
        await here.patch(SchedulingShard, "default", {"plugins": {"nodeplacement": {"arguments": {"gpu": "sideways"}}}})
        assert "sideways" in await here.message(SchedulingShard, "default", "Ready")
        assert await here.place("e") == first
        await here.patch(SchedulingShard, "default", {"plugins": None, "args": {"schedule-period": "soon"}})
        assert "soon" in await here.message(SchedulingShard, "default", "Ready")
        await here.patch(Config, "kai-config", {"podGrouper": {"replicas": -1}})
        assert "it must be 0 or more" in await here.message(Config, "kai-config", "Ready")
        assert await here.place("c") == first


#: A value of each argument of a shard that isn't its default one.
OTHER_VALUES = {
    "cpu-worker-node-label-key": "own/cpu",
    "default-staleness-grace-period": "7s",
    "gpu-worker-node-label-key": "own/gpu",
    "log-level": "debug",
    "max-consolidation-preemptees": "3",
    "pyroscope-address": "http://127.0.0.1:4040",
    "record": "emptyDir",
    "record-keep": "3",
    "record-most": "1Gi",
    "schedule-period": "7s",
    "stuck-in-releasing-threshold": "7s",
    **dict.fromkeys(("burst", "plugin-server-port", "profiler-port", "qps"), "7"),
    **dict.fromkeys(("allow-consolidating-reclaim", "full-hierarchy-fairness", "use-scheduling-signatures"), "false"),
    **dict.fromkeys(
        ("detailed-fit-errors", "enable-profiler", "evict-by-deletion", "restrict-node-scheduling"), "true"
    ),
    "schedule-csi-storage": "true",
}


@pytest.mark.parametrize("name", sorted(UNDERSTOOD_ARGUMENTS))
def test_every_argument_of_a_shard_has_its_effect_in_process_or_is_named(name: str) -> None:
    others = ["--restrict-node-scheduling=true"] if "worker-node-label" in name else []
    before = interpret("scheduler", others) or Options()
    after = interpret("scheduler", followed([*others, f"--{name}={OTHER_VALUES[name]}"])) or Options()
    named = process_notes(SchedulingShardSpec(args={name: OTHER_VALUES[name]}))
    assert (after == before) == bool(named)
    assert all(f"spec.args.{name}: has no effect" in each for each in named)


async def test_arguments_of_a_shard_that_have_no_effect_in_process_are_named_in_its_condition() -> None:
    async with laptop() as here:
        await here.patch(SchedulingShard, "default", {"args": {"qps": "7", "log-level": "debug", "v": "4"}})
        told = await here.message(SchedulingShard, "default")
        assert "spec.args.qps: has no effect in the embedded cluster: requests within the process" in told
        assert "spec.args.log-level: has no effect in the embedded cluster: bosket up --log-level" in told
        assert "spec.args.v: the scheduler has no such flag" in told
        assert await is_ready(here.client, SchedulingShard, "default")
        await here.patch(SchedulingShard, "default", {"args": None})
        assert "spec.args" not in await here.message(SchedulingShard, "default")


async def test_a_second_shard_has_a_scheduler_of_its_own_which_goes_with_it() -> None:
    share = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
    resources = QueueResources(gpu=share, cpu=share, memory=share)
    async with laptop() as here:
        nodes = sorted(each.metadata.name for each in (await here.client.list(Node)).items)
        await here.client.patch(Node, nodes[2], {"metadata": {"labels": {POOL: "own"}}})
        await here.client.create(
            Queue(metadata=ObjectMeta(name="own", labels={POOL: "own"}), spec=QueueSpec(resources=resources))
        )
        where: dict[str, Any] = {"kai.scheduler__node_pool": "own", "kai.scheduler__queue": "own"}
        await here.create("waits", **where)
        assert await here.stays_pending("waits")
        await here.client.create(
            SchedulingShard(metadata=ObjectMeta(name="own"), spec=SchedulingShardSpec(partitionLabelValue="own"))
        )

        async def bound() -> str:
            return (await here.client.get(Pod, "waits", "default")).spec.nodeName

        assert await here.until(bound) == nodes[2]
        assert await here.place("elsewhere") != nodes[2]
        await here.client.delete(SchedulingShard, "own")
        await here.cluster.clock.sleep(1)
        await here.create("late", **where)
        assert await here.stays_pending("late")
        assert await here.place("as-before") != nodes[2]


async def test_services_and_admission_follow_the_config() -> None:
    half = {"gpu-fraction": "0.5"}
    async with laptop() as here:
        await here.place("a")
        await here.patch(Config, "kai-config", {"binder": {"service": {"enabled": False}}})
        await here.create("b")
        assert await here.stays_pending("b")
        await here.patch(Config, "kai-config", {"binder": {"service": {"enabled": True}}})

        async def bound() -> str:
            return (await here.client.get(Pod, "b", "default")).spec.nodeName

        assert await here.until(bound)
        await here.patch(Config, "kai-config", {"scheduler": {"service": {"enabled": False}}})
        await here.create("c")
        assert await here.stays_pending("c")
        assert "is false" in await here.message(SchedulingShard, "default")
        await here.create("allowed", half)
        await here.patch(Config, "kai-config", {"admission": {"gpuSharing": False}})
        with pytest.raises(ApiError, match="GPU sharing"):
            await here.create("refused", half)
        await here.patch(Config, "kai-config", {"admission": {"service": {"enabled": False}}})
        await here.create("unchecked", half)


async def test_webhooks_that_the_config_switches_off_are_not_asked_in_process() -> None:
    bare = Queue(metadata=ObjectMeta(name="bare"), spec=QueueSpec())
    async with laptop() as here:
        with pytest.raises(ApiError, match="resources must be specified"):
            await here.client.create(bare)
        await here.patch(Config, "kai-config", {"queueController": {"webhooks": {"enableValidation": False}}})
        await here.client.create(bare)
        with pytest.raises(ApiError, match="must be a number above 0"):
            await here.create("still-checked", {"gpu-fraction": "7"})


async def test_the_command_line_rules_over_the_default_shard_and_an_operator_over_conditions() -> None:
    async with laptop(service_options={"scheduler": Options(evict_by_deletion=True)}) as here:
        await here.patch(SchedulingShard, "default", {"placementStrategy": {"gpu": "spread"}})
        assert len({await here.place(name) for name in ("a", "b")}) == 1
        assert "the command line has others" in await here.message(SchedulingShard, "default")
        lease = LeaseSpec(
            holderIdentity="elsewhere",
            leaseDurationSeconds=3600,
            renewTime=format_micro_time(here.cluster.clock.now()),
        )
        metadata = ObjectMeta(name="41fce092.run.ai", namespace="kai-scheduler")
        await here.client.create(Lease(metadata=metadata, spec=lease))
        await here.cluster.clock.sleep(1)
        before = (await here.client.get(SchedulingShard, "default")).status
        await here.client.patch(SchedulingShard, "default", {"spec": {"kValue": -1}})
        await here.cluster.clock.sleep(2)
        assert (await here.client.get(SchedulingShard, "default")).status == before


@pytest.mark.parametrize(
    ("services", "there", "words"),
    [
        (("admission", "podgrouper"), True, "not among the services of this cluster: binder"),
        (("grove-operator",), False, ""),
        ((), False, ""),
    ],
)
async def test_only_services_of_the_cluster_run_and_where_there_are_none_both_objects_are_others(
    services: tuple[str, ...], there: bool, words: str
) -> None:
    async with laptop(services=services) as here:
        await here.cluster.clock.sleep(1)
        found = [*(await here.client.list(Config)).items, *(await here.client.list(SchedulingShard)).items]
        assert bool(found) == there
        if there:
            assert words in await here.message(Config, "kai-config")
            assert "not among the services of this cluster: scheduler" in await here.message(SchedulingShard, "default")
