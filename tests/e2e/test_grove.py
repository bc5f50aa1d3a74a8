"""PodCliqueSets from Grove's lists of what must work, on both servers: gangs, scaling, updates, termination, deletion.

Admission doesn't run: the sets are complete as they are. All pods are scheduled by Bosket.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import replace

from bosket.api.core import Node, Pod, Secret, Service, ServiceAccount
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectMeta
from bosket.api.rbac import Role, RoleBinding
from bosket.api.time import parse_time
from tests.e2e.cluster import Cluster
from tests.grove.sets import clique, clique_set, group

SERVICES = ("podgroup-controller", "queue-controller", "scheduler", "binder", "grove-operator", "grove-backends")
NAME = "web"
PATIENCE_SECONDS = 60.0
GROVE_KINDS = (PodCliqueSet, PodClique, PodCliqueScalingGroup, PodGang)


async def start(cluster: Cluster, nodes: int) -> tuple[list[str], str]:
    """Nodes that hold one pod each, and a queue."""
    names = await cluster.add_nodes(nodes, gpus=1)
    parent = await cluster.add_queue(gpu_quota=nodes)
    queue = await cluster.add_queue(parent=parent, gpu_quota=nodes)
    await cluster.start_services(*SERVICES)
    return names, queue


async def apply(cluster: Cluster, queue: str, *, group_minimum: int = 1, **options: Any) -> None:
    """A router, and a group of a leader and two workers, twice; one GPU each."""
    cliques = [
        clique(name, count, 1, gpus=1, scheduler="kai-scheduler", labels={"kai.scheduler/queue": queue})
        for name, count in (("router", 2), ("leader", 1), ("worker", 2))
    ]
    groups = [group("model", "leader", "worker", replicas=2, minimum=group_minimum)]
    owner = clique_set(NAME, *cliques, groups=groups, **options)
    await cluster.client.create(replace(owner, metadata=ObjectMeta(name=NAME, namespace=cluster.namespace)))


async def pods(cluster: Cluster, name: str = "") -> list[Pod]:
    labels = f"grove.io/podclique={NAME}-0-{name}" if name else None
    found = (await cluster.client.list(Pod, cluster.namespace, labels=labels)).items
    return [each for each in found if not each.metadata.deletionTimestamp]


async def until_running(cluster: Cluster, running: int, total: int) -> None:
    async def so_many_run() -> bool:
        phases = [each.status.phase for each in await pods(cluster)]
        assert (phases.count("Running"), len(phases)) == (running, total)
        return True

    await cluster.eventually(so_many_run, PATIENCE_SECONDS)


async def cordon(cluster: Cluster, *nodes: str, schedulable: bool = False) -> None:
    for name in nodes:
        await cluster.client.patch(Node, name, {"spec": {"unschedulable": None if schedulable else True}})


async def change_image(cluster: Cluster, position: int) -> None:
    patch = [
        {
            "op": "replace",
            "path": f"/spec/template/cliques/{position}/spec/podSpec/containers/0/image",
            "value": "app:2",
        }
    ]
    path = f"/apis/grove.io/v1alpha1/namespaces/{cluster.namespace}/podcliquesets/{NAME}"
    await cluster.client.raw("PATCH", path, body=patch, headers={"Content-Type": "application/json-patch+json"})


async def test_gangs_start_with_their_minimum_and_grow_with_room_and_scale(cluster: Cluster) -> None:
    """GS5, GS7 and GS9: the base gang's minimum first, then the scaled gang's, then the rest, then more of each."""
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


async def test_a_new_template_reaches_all_pods(cluster: Cluster) -> None:
    """RU9: cliques in no group pod by pod, groups replica by replica."""
    _, queue = await start(cluster, 8)
    await apply(cluster, queue)
    await until_running(cluster, 8, 8)
    await change_image(cluster, 0)
    await change_image(cluster, 2)

    async def all_are_new() -> bool:
        owner = await cluster.client.get(PodCliqueSet, NAME, cluster.namespace)
        progress = owner.status.updateProgress
        assert progress is not None
        assert progress.updateEndedAt is not None
        assert owner.status.updatedReplicas == 1
        changed = [*await pods(cluster, "router"), *await pods(cluster, "model-0-worker")]
        assert {each.spec.containers[0].image for each in changed} == {"app:2"}
        return True

    await cluster.eventually(all_are_new, PATIENCE_SECONDS)
    await until_running(cluster, 8, 8)


async def test_with_on_delete_a_pod_is_new_when_it_comes_back(cluster: Cluster) -> None:
    """OD2 and OD5."""
    _, queue = await start(cluster, 8)
    await apply(cluster, queue, on_delete=True)
    await until_running(cluster, 8, 8)
    await change_image(cluster, 2)

    async def is_noted() -> bool:
        found = await cluster.client.get(PodClique, f"{NAME}-0-model-1-worker", cluster.namespace)
        return found.spec.podSpec.containers[0].image == "app:2"

    await cluster.eventually(is_noted)
    victim = (await pods(cluster, "model-1-worker"))[0]
    await cluster.client.delete(Pod, victim.metadata.name, cluster.namespace, grace_seconds=0)

    async def one_is_new() -> bool:
        images = sorted(each.spec.containers[0].image for each in await pods(cluster, "model-1-worker"))
        assert images == ["app:1", "app:2"]
        return True

    await cluster.eventually(one_is_new)


async def test_a_gang_below_its_minimum_is_made_anew_and_a_deleted_set_leaves_nothing(cluster: Cluster) -> None:
    """GT1, and the cascade of a deletion."""
    names, queue = await start(cluster, 8)
    await apply(cluster, queue, group_minimum=2, delay="3s")
    await until_running(cluster, 8, 8)

    async def is_no_newcomer() -> bool:
        """Who loses its pods right after its creation counts as never scheduled, and isn't terminated."""
        found = await cluster.client.get(PodCliqueScalingGroup, f"{NAME}-0-model", cluster.namespace)
        return time.time() - parse_time(found.metadata.creationTimestamp or "") > 7

    await cluster.eventually(is_no_newcomer)
    before = {each.metadata.uid for each in await pods(cluster)}
    (victim,) = await pods(cluster, "model-0-leader")
    await cordon(cluster, victim.spec.nodeName)
    await cluster.client.delete(Pod, victim.metadata.name, cluster.namespace, grace_seconds=0)

    async def all_are_others() -> bool:
        assert not before & {each.metadata.uid for each in await pods(cluster)}
        return True

    await cluster.eventually(all_are_others, PATIENCE_SECONDS)
    await cordon(cluster, *names, schedulable=True)
    await until_running(cluster, 8, 8)
    await cluster.client.delete(PodCliqueSet, NAME, cluster.namespace)

    async def nothing_is_left() -> bool:
        kinds = (
            PodCliqueSet,
            PodClique,
            PodCliqueScalingGroup,
            PodGang,
            PodGroup,
            Pod,
            Service,
            Role,
            RoleBinding,
            Secret,
        )
        for kind in kinds:
            found = (await cluster.client.list(kind, cluster.namespace)).items
            assert not found, f"{len(found)} {kind.__name__}s"
        accounts = (await cluster.client.list(ServiceAccount, cluster.namespace)).items
        assert [each.metadata.name for each in accounts] == ["default"]
        return True

    await cluster.eventually(nothing_is_left, PATIENCE_SECONDS)
