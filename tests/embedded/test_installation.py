"""What `bosket manifests` prints, applied to an embedded cluster: the operator's pods are placed, and run.

The operator's service runs beside, as its pods would on a cluster whose pods run programs; what it deploys comes up.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bosket.api.apps import DaemonSet, Deployment
from bosket.api.core import Pod
from bosket.embedded.cluster import EmbeddedCluster
from bosket.install.chart import manifests
from bosket.kube.client import Client, PatchType
from bosket.runtime.clock import LoopClock

NAMESPACE = "kai-scheduler"


async def apply(client: Client, manifest: dict[str, Any]) -> None:
    served = {(each.api_version, each.kind): each for each in await client.discover()}
    resource = served[manifest["apiVersion"], manifest["kind"]]
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace") if resource.namespaced else None
    await client.patch(
        resource, metadata["name"], manifest, namespace=namespace, type=PatchType.APPLY, field_manager="kubectl"
    )


@pytest.mark.looptime
async def test_the_operators_pods_run_and_so_does_what_it_deploys() -> None:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=3, services=("binder", "operator"), clock=clock) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for manifest in msgspec.to_builtins(list(manifests({}, NAMESPACE, definitions=False))):
            await apply(client, manifest)
        async with asyncio.timeout(300):
            while True:
                deployments = {each.metadata.name: each for each in (await client.list(Deployment, NAMESPACE)).items}
                ready = {name for name, each in deployments.items() if each.status.availableReplicas}
                if len(deployments) > 5 and len(ready) == len(deployments):
                    break
                await clock.sleep(1)
        assert {"kai-operator", "kai-scheduler-default", "binder"} <= ready
        pods = (await client.list(Pod, NAMESPACE)).items
        assert {pod.spec.schedulerName for pod in pods} == {"default-scheduler"}
        for daemons in (await client.list(DaemonSet, NAMESPACE)).items:
            assert daemons.status.numberAvailable == daemons.status.desiredNumberScheduled
