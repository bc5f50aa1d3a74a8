"""A PodCliqueSet on simulated nodes of both servers. Grove's list of what must work is in `test_grove_list`.

Admission doesn't run: the set is complete as it is. All pods are scheduled by Bosket.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import Node, Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.object import ObjectMeta
from tests.e2e.cluster import Cluster
from tests.grove.sets import clique, clique_set, group

SERVICES = ("podgroup-controller", "queue-controller", "scheduler", "binder", "grove-operator", "grove-backends")
NAME = "web"
PATIENCE_SECONDS = 120.0


async def start(cluster: Cluster, nodes: int) -> tuple[list[str], str]:
    """Nodes that hold one pod each, and a queue."""
    names = await cluster.add_nodes(nodes, gpus=1)
    parent = await cluster.add_queue(gpu_quota=nodes)
    queue = await cluster.add_queue(parent=parent, gpu_quota=nodes)
    await cluster.start_services(*SERVICES)
    return names, queue


async def apply(cluster: Cluster, queue: str) -> None:
    """A router, and a group of a leader and two workers, twice; one GPU each."""
    cliques = [
        clique(name, count, 1, gpus=1, scheduler="kai-scheduler", labels={"kai.scheduler/queue": queue})
        for name, count in (("router", 2), ("leader", 1), ("worker", 2))
    ]
    owner = clique_set(NAME, *cliques, groups=[group("model", "leader", "worker", replicas=2)])
    await cluster.client.create(replace(owner, metadata=ObjectMeta(name=NAME, namespace=cluster.namespace)))


async def until_running(cluster: Cluster, running: int, total: int) -> None:
    async def so_many_run() -> bool:
        pods = (await cluster.client.list(Pod, cluster.namespace)).items
        phases = [each.status.phase for each in pods if not each.metadata.deletionTimestamp]
        assert (phases.count("Running"), len(phases)) == (running, total)
        return True

    await cluster.eventually(so_many_run, PATIENCE_SECONDS)


async def cordon(cluster: Cluster, *nodes: str, schedulable: bool = False) -> None:
    for name in nodes:
        await cluster.client.patch(Node, name, {"spec": {"unschedulable": None if schedulable else True}})


async def test_gangs_start_with_their_minimum_and_grow_with_room_and_scale(cluster: Cluster) -> None:
    """The base gang's minimum first, then the scaled gang's, then the rest, then more of each; and all is said."""
    names, queue = await start(cluster, 16)
    await cordon(cluster, *names[2:])
    await apply(cluster, queue)
    await until_running(cluster, 0, 8)  # the base gang needs three
    await cordon(cluster, names[2], schedulable=True)
    await until_running(cluster, 3, 8)
    await cordon(cluster, *names[3:8], schedulable=True)
    await until_running(cluster, 8, 8)

    async def all_is_said() -> bool:
        owner = await cluster.client.get(PodCliqueSet, NAME, cluster.namespace)
        gangs = (await cluster.client.list(PodGang, cluster.namespace)).items
        assert (owner.status.availableReplicas, owner.status.updatedReplicas) == (1, 1)
        assert [each.status.phase for each in gangs] == ["Running", "Running"]
        return True

    await cluster.eventually(all_is_said, PATIENCE_SECONDS)
    await cordon(cluster, *names[8:], schedulable=True)
    await cluster.client.scale(PodCliqueScalingGroup, f"{NAME}-0-model", cluster.namespace, 3)
    await until_running(cluster, 11, 11)
    await cluster.client.scale(PodClique, f"{NAME}-0-router", cluster.namespace, 1)
    await cluster.client.scale(PodCliqueScalingGroup, f"{NAME}-0-model", cluster.namespace, 1)
    await until_running(cluster, 4, 4)
    await cluster.client.scale(PodCliqueSet, NAME, cluster.namespace, 2)
    await until_running(cluster, 12, 12)
