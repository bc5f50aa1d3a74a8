"""The operator brings up shards and webhooks, and what it deploys does its work."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apps import Deployment
from bosket.api.batch import Job
from bosket.api.coordination import Lease
from bosket.api.core import Namespace, Pod, Secret
from bosket.api.kai import BindRequest
from bosket.api.kai.config import AdmissionConfig, Config, ConfigSpec, NodeScaleAdjusterConfig
from bosket.api.kai.operand import ServiceConfig
from bosket.api.kai.shard import PlacementStrategy, SchedulingShard, SchedulingShardSpec
from bosket.api.keys import NODE_POOL_LABEL, SYSTEM_NAMESPACE
from bosket.api.object import ObjectMeta
from bosket.cli.admission_flags import admission_options
from bosket.cli.main import app
from bosket.services.admission import Options
from tests.controlplane.plane import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import REAL
from tests.e2e.manifest import job, pod
from tests.e2e.operated import Kubelet, Replica, command_of, in_pool, is_ready, operated, pooled_queue
from tests.e2e.test_admission import SENTENCE, apply

OFF = ServiceConfig(enabled=False)
LEASE_SECONDS, LOOK_SECONDS = 15, 1
#: Of which the operator gathers changes for a fifth; two cores are few.
HANDED_OVER_SECONDS = 5
TAKEN = 'kai_configuration_changes_total{result="taken"}'
GANGS, GANG_SIZE = 6, 4


def shard(cluster: Cluster, letter: str, **spec: object) -> SchedulingShard:
    pool = f"{cluster.namespace}-{letter}"
    return SchedulingShard(
        metadata=ObjectMeta(name=pool),
        spec=SchedulingShardSpec(partitionLabelValue=pool, **spec),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "control_plane_if_real", [pytest.param(REAL, marks=pytest.mark.real)], indirect=True
)  # its lease takes its time
async def test_two_shards_each_with_their_workloads_and_a_leader_that_is_killed(cluster: Cluster) -> None:
    (home,) = await cluster.add_nodes(1, gpus=0)
    pools = {letter: f"{cluster.namespace}-{letter}" for letter in "ab"}
    nodes = {
        letter: await cluster.add_nodes(GANGS * GANG_SIZE // 8 + 1, labels={NODE_POOL_LABEL: pool})
        for letter, pool in pools.items()
    }
    await cluster.add(*(pooled_queue(pool, pool) for pool in pools.values()))
    spread = shard(cluster, "b", placementStrategy=PlacementStrategy(gpu="spread", cpu="spread"))
    spec = ConfigSpec(admission=AdmissionConfig(service=OFF), nodeScaleAdjuster=NodeScaleAdjusterConfig(service=OFF))
    async with operated(cluster, spec, shard(cluster, "a"), spread), AsyncExitStack() as stack:
        await is_ready(cluster, Config, "kai-config", home)
        for pool in pools.values():
            await is_ready(cluster, SchedulingShard, pool, home)
        seen: dict[str, set[str]] = defaultdict(set)
        start = await cluster.client.list(Pod, cluster.namespace)
        recorder = asyncio.create_task(cluster.record_nodes(start.resource_version, seen))
        stack.callback(recorder.cancel)

        kubelet = Kubelet(cluster, stack)
        leader = await kubelet.start(f"kai-scheduler-{pools['a']}")

        async def holder() -> str:
            lease = await cluster.client.get(Lease, f"kai-scheduler-{pools['a']}", SYSTEM_NAMESPACE)
            return lease.spec.holderIdentity or ""

        async def another_than(before: str, within_seconds: float) -> str:
            started = time.monotonic()

            async def taken_over() -> str | None:
                found = await holder()
                return found if found not in ("", before) else None

            found = await cluster.eventually(taken_over, timeout_seconds=60)
            took = time.monotonic() - started
            assert took < within_seconds, f"{took:.1f} s without a leader"
            return found

        first = await cluster.eventually(holder)
        standby = await kubelet.start(f"kai-scheduler-{pools['a']}")
        follower = await kubelet.start(f"kai-scheduler-{pools['b']}")
        for name in ("pod-grouper", "binder"):
            await kubelet.start(name)

        async def submit(letter: str, count: int, prefix: str) -> None:
            for number in range(count):
                gang = job(f"{prefix}-{number}", pods=GANG_SIZE, gpus=1, queue=pools[letter])
                await cluster.client.create(in_pool(gang, pools[letter]), cluster.namespace)

        await submit("a", GANGS // 2, "a-before")
        await submit("b", 2, "b")
        await cluster.eventually(lambda: all_run(cluster, GANGS // 2 + 2), timeout_seconds=60)

        await settings_are_handed_over(cluster, pools["b"], follower)
        await submit("a", GANGS // 2, "a-after")
        leader.process.kill()
        # The other has seen the last renewal up to one look late, and counts from then on; and two cores are few.
        second = await another_than(first, LEASE_SECONDS + LOOK_SECONDS + 4)
        await cluster.eventually(lambda: all_run(cluster, GANGS + 2), timeout_seconds=60)

        # An update: another replica is there before the leader is asked to end, which gives its lease back.
        third = await kubelet.start(f"kai-scheduler-{pools['a']}")
        await cluster.eventually(third.is_ready, timeout_seconds=60)
        standby.process.terminate()
        await another_than(second, LOOK_SECONDS + 4)

        pods = (await cluster.client.list(Pod, cluster.namespace)).items
        assert len(pods) == (GANGS + 2) * GANG_SIZE, "pods were lost and made again"

        async def recorder_has_seen_all() -> bool:
            return len(seen) == len(pods)

        await cluster.eventually(recorder_has_seen_all)
        assert all(len(where) == 1 for where in seen.values()), "a pod was bound twice"
        for letter in "ab":
            landed = {
                name for each in pods if each.metadata.name.startswith(letter) for name in seen[each.metadata.name]
            }
            assert landed <= set(nodes[letter])
        requests = (await cluster.client.list(BindRequest, cluster.namespace)).items
        assert {each.metadata.labels[NODE_POOL_LABEL] for each in requests} == set(pools.values())


async def test_a_shard_by_fragmentation_keeps_room_for_the_large_pods_that_it_sees(cluster: Cluster) -> None:
    (home,) = await cluster.add_nodes(1, gpus=0)
    pool = f"{cluster.namespace}-f"
    roomy, fuller = await cluster.add_nodes(2, gpus=8, labels={NODE_POOL_LABEL: pool})
    await cluster.add(pooled_queue(pool, pool))
    by_fragmentation = shard(cluster, "f", placementStrategy=PlacementStrategy(gpu="fragmentation"))
    spec = ConfigSpec(admission=AdmissionConfig(service=OFF), nodeScaleAdjuster=NodeScaleAdjusterConfig(service=OFF))
    async with operated(cluster, spec, by_fragmentation), AsyncExitStack() as stack:
        await is_ready(cluster, SchedulingShard, pool, home)
        kubelet = Kubelet(cluster, stack)
        for name in (f"kai-scheduler-{pool}", "pod-grouper", "binder"):
            await kubelet.start(name)

        async def node_of(name: str, *, gpus: int, on: str = "") -> str:
            wanted: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}
            gang = in_pool(job(name, pods=1, gpus=gpus, queue=pool, **wanted), pool)
            await cluster.client.create(gang, cluster.namespace)

            async def landed() -> str | None:
                pods = (await cluster.client.list(Pod, cluster.namespace)).items
                return next((each.spec.nodeName for each in pods if each.metadata.name.startswith(name)), None) or None

            return await cluster.eventually(landed, timeout_seconds=60)

        for number in range(3):
            await node_of(f"small-{number}", gpus=1, on=roomy)
        await node_of("large", gpus=4, on=fuller)
        # Bin-packing takes the fuller node, and then four GPUs are free together on one node only.
        assert await node_of("one-more", gpus=1) == roomy


async def settings_are_handed_over(cluster: Cluster, name: str, scheduler: Replica) -> None:
    """Other settings of a shard are in force in the process that runs, at once, and make no other pods."""
    deployment = f"kai-scheduler-{name}"
    before = (await cluster.client.get(Deployment, deployment, SYSTEM_NAMESPACE)).metadata.generation
    known, started = await scheduler.measured(TAKEN), time.monotonic()
    await cluster.client.patch(SchedulingShard, name, {"spec": {"minRuntime": {"preemptMinRuntime": "1s"}}})

    async def taken() -> bool:
        return await scheduler.measured(TAKEN) > known

    await cluster.eventually(taken)
    took = time.monotonic() - started
    assert took < HANDED_OVER_SECONDS, f"{took:.1f} s with the old settings"
    assert (await cluster.client.get(Deployment, deployment, SYSTEM_NAMESPACE)).metadata.generation == before


async def all_run(cluster: Cluster, gangs: int) -> bool:
    jobs = (await cluster.client.list(Job, cluster.namespace)).items
    ready = [each.status.ready or 0 for each in jobs if each.status is not None]
    assert ready == [GANG_SIZE] * gangs
    return True


async def test_webhooks_that_the_operator_deploys_rotate_fail_open_and_go(cluster: Cluster) -> None:
    spec = ConfigSpec(
        admission=AdmissionConfig(gpuSharing=True), nodeScaleAdjuster=NodeScaleAdjusterConfig(service=OFF)
    )
    async with operated(cluster, spec):

        async def deployed() -> bool:
            await cluster.client.get(Deployment, "admission", SYSTEM_NAMESPACE)
            return not (await configuration(cluster)).webhooks

        await cluster.eventually(deployed)
        await apply(cluster, pod("early"))  # nobody answers yet, and nobody is asked
        await serve(cluster)

        async def refused() -> bool:
            return SENTENCE in await apply(cluster, pod("bad", annotations={"gpu-fraction": "1.5"}), code=None)

        await cluster.eventually(refused)
        owners = (await configuration(cluster)).metadata.ownerReferences
        assert [each.kind for each in owners] == ["Config"]

        await namespace_says(cluster, {"bosket.dev/scheduler-name": "kai-scheduler", "kai.scheduler/queue": "team"})

        async def taken_over() -> bool:
            name = f"plain-{len((await cluster.client.list(Pod, cluster.namespace)).items)}"
            await apply(cluster, pod(name, scheduler="default-scheduler"))
            made = await cluster.client.get(Pod, name, cluster.namespace)
            return (made.spec.schedulerName, made.metadata.labels) == ("kai-scheduler", {"kai.scheduler/queue": "team"})

        await cluster.eventually(taken_over)
        await namespace_says(cluster, {"bosket.dev/scheduler-name": None, "kai.scheduler/queue": None})

        before = await cluster.client.get(Secret, "kai-admission-webhook-tls-secret", SYSTEM_NAMESPACE)
        await cluster.client.delete(Secret, before.metadata.name, SYSTEM_NAMESPACE)

        async def rotated() -> bool:
            after = await cluster.client.get(Secret, before.metadata.name, SYSTEM_NAMESPACE)
            return after.data["ca.crt"] != before.data["ca.crt"]

        await cluster.eventually(rotated)
        await cluster.eventually(refused)

        await cluster.stop_service("admission")
        await apply(cluster, pod("unrelated", scheduler="default-scheduler"))
        assert "failed calling webhook" in await apply(cluster, pod("ours"), code=1)

        found = await cluster.client.get(Config, "kai-config")
        await cluster.client.patch(
            Config, found.metadata.name, {"spec": {"admission": {"service": {"enabled": False}}}}
        )

        async def gone() -> bool:
            page = await cluster.client.list(ValidatingWebhookConfiguration, labels="app=admission")
            return not page.items

        await cluster.eventually(gone)
        await apply(cluster, pod("ours"))


async def namespace_says(cluster: Cluster, labels: dict[str, str | None]) -> None:
    await cluster.client.patch(Namespace, cluster.namespace, {"metadata": {"labels": labels}})


async def configuration(cluster: Cluster) -> MutatingWebhookConfiguration:
    return await cluster.client.get(MutatingWebhookConfiguration, "mutating-kai-admission")


async def serve(cluster: Cluster) -> None:
    """Run the admission service as its Deployment says, where this API server can reach it."""
    command = await command_of(cluster, "admission")
    _, bound, _ = app.parse_args(command[1:], print_error=False, exit_on_error=False)
    given = bound.arguments
    options = admission_options(given["admission"], given["workloads"], ["admission"])["admission"]
    assert isinstance(options, Options)
    (port,) = free_ports(1)
    here = replace(options, host="127.0.0.1", port=port, url=f"https://127.0.0.1:{port}", upkeep_seconds=0.2)
    await cluster.start_services("admission", options=here)
