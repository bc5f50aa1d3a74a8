"""Pods that share GPUs on a cluster without any: an autoscaler, played by the test, is shown what they need."""

from __future__ import annotations

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import RUN_DURATION_ANNOTATION, SCALE_ADJUST_NAMESPACE, SHARED_GPU_POD_NAMESPACE_LABEL
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import QUEUE_LABEL, sharing_pod

SERVICES = ("podgrouper", "scheduler", "binder", "node-scale-adjuster")


async def scaling_pods(cluster: Cluster) -> list[Pod]:
    labels = f"{SHARED_GPU_POD_NAMESPACE_LABEL}={cluster.namespace}"
    return (await cluster.client.list(Pod, SCALE_ADJUST_NAMESPACE, labels=labels)).items


async def test_a_node_comes_for_pods_that_share_a_gpu_and_they_run_when_the_scaling_pod_is_done(
    cluster: Cluster,
) -> None:
    queue = await cluster.add_queue(gpu_quota=-1)
    await cluster.add_nodes(1, gpus=0)
    await cluster.start_services(*SERVICES)
    for name in ("a", "b"):
        manifest = sharing_pod(name, fraction="0.5")
        manifest["metadata"]["labels"][QUEUE_LABEL] = queue
        await cluster.client.create(manifest, cluster.namespace)

    async def autoscaler_sees_it() -> Pod | None:
        for each in await scaling_pods(cluster):
            if any(condition.reason == "Unschedulable" for condition in each.status.conditions):
                return each
        return None

    seen = await cluster.eventually(autoscaler_sees_it)
    assert len(await scaling_pods(cluster)) == 1  # two halves are one GPU
    assert seen.spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"

    # The node is there before the scaling pod has it: nobody reserves its GPU yet.
    (node,) = await cluster.add_nodes(1, gpus=1)

    async def binder_waits() -> bool:
        requests = (await cluster.client.list(BindRequest, cluster.namespace)).items
        return any("scaling up" in each.status.reason for each in requests)

    await cluster.eventually(binder_waits)
    # In a simulated container nothing runs: this one ends as its program would.
    done = {"metadata": {"annotations": {RUN_DURATION_ANNOTATION: "0s"}}}
    await cluster.client.patch(Pod, seen.metadata.name, done, namespace=SCALE_ADJUST_NAMESPACE)
    await cluster.client.bind(seen, node)

    async def both_share_the_gpu() -> bool:
        pods = [await cluster.client.get(Pod, name, cluster.namespace) for name in ("a", "b")]
        return all(each.status.phase == "Running" and each.spec.nodeName == node for each in pods)

    await cluster.eventually(both_share_the_gpu)

    async def nothing_is_left() -> bool:
        return not await scaling_pods(cluster)

    await cluster.eventually(nothing_is_left)
