"""Gangs that can never start: larger than a node, the shard, their queue's limit, or, if they can't be preempted, its
quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.kai import PodGroup, QueueResources
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.scheduler.model.resource import QueueAmounts
from bosket.tools.doctor.amount import RESOURCES, as_quota, asked_by, bounds, exceeds, held_by, needed_by, total, words
from bosket.tools.doctor.checks.queue_tree import set_amount
from bosket.tools.doctor.finding import Finding, Severity, named
from bosket.tools.doctor.installation import Installation


def check(installation: Installation) -> Iterator[Finding]:
    """The gangs that wait and can never start, each with the first thing that it is too large for."""
    waiting: dict[ObjectKey, list[Pod]] = {}
    for pod in installation.own_pods:
        name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
        if name:
            waiting.setdefault(ObjectKey(pod.metadata.namespace, name), []).append(pod)
    priorities = {each.metadata.name: each.value for each in installation.bundle.of(PriorityClass)}
    pools = _pools(installation)
    for group in installation.bundle.of(PodGroup):
        pods = waiting.get(group.key, [])
        if not pods or any(pod.spec.nodeName for pod in pods):
            continue  # what runs, fits
        needed = needed_by(group.spec, pods)
        if needed is None:
            continue
        too_large = [*_beyond_nodes(pools.get(installation.pool_of(group)), group, pods, needed)]
        yield from too_large or _beyond_queue(installation, group, needed, priorities)


class _Pool(NamedTuple):
    """What the nodes of a shard have."""

    #: Clusters have thousands of nodes, of a few shapes.
    shapes: frozenset[QueueAmounts]
    total: QueueAmounts


def _pools(installation: Installation) -> dict[str, _Pool]:
    nodes: dict[str, list[QueueAmounts]] = {}
    for node in installation.nodes.values():
        nodes.setdefault(installation.pool_of(node), []).append(held_by(node))
    return {pool: _Pool(frozenset(shapes), total(shapes)) for pool, shapes in nodes.items()}


def _beyond_nodes(pool: _Pool | None, group: PodGroup, pods: list[Pod], needed: QueueAmounts) -> Iterator[Finding]:
    if pool is None:
        return
    nodes = pool.shapes
    for pod in pods:
        asked = asked_by(pod)
        if asked is None or any(not exceeds(asked, node) for node in nodes):
            continue
        largest = (max(node[0] for node in nodes), max(node[1] for node in nodes), max(node[2] for node in nodes))
        places = exceeds(asked, largest)
        what = (
            f"asks for {words(asked, places[0])}, and the largest node has {words(largest, places[0])}"
            if places
            else "asks for more GPUs, CPU and memory together than any one node has"
        )
        yield Finding(
            "pod-larger-than-nodes",
            Severity.ERROR,
            named(pod),
            "spec.containers[].resources.requests",
            f"the pod {what}: it never starts",
            "ask for less, or add larger nodes",
            "kubectl get nodes -o custom-columns=NAME:.metadata.name,HAS:.status.allocatable",
        )
        return
    capacity = pool.total
    for place in exceeds(needed, capacity):
        yield Finding(
            "podgroup-larger-than-cluster",
            Severity.ERROR,
            named(group),
            "spec.minMember" if not group.spec.subGroups else "spec.subGroups",
            f"the gang needs {words(needed, place)} at once, and all nodes of its shard have "
            f"{words(capacity, place)} together: it never starts",
            "lower its minimum, or add nodes",
            f"kubectl edit podgroups.scheduling.run.ai -n {group.metadata.namespace} {group.metadata.name}",
        )


def _beyond_queue(
    installation: Installation, group: PodGroup, needed: QueueAmounts, priorities: dict[str, int]
) -> Iterator[Finding]:
    non_preemptible = _is_non_preemptible(group, priorities)
    for queue in installation.lineage(group.spec.queue):
        resources = queue.spec.resources or QueueResources()
        for place in exceeds(needed, limit := bounds(resources, "limit")):
            yield Finding(
                "podgroup-over-limit",
                Severity.ERROR,
                named(group),
                "spec.queue",
                f"the gang needs {words(needed, place)}, and queue {queue.metadata.name} may use {words(limit, place)} "
                "at most: it never starts",
                f"raise the queue's limit to {words(needed, place)} or more, lower the gang's minimum, or choose "
                "another queue",
                set_amount(queue, RESOURCES[place], "limit", as_quota(needed[place], place)),
            )
            return
        if not non_preemptible:
            continue
        for place in exceeds(needed, quota := bounds(resources, "quota")):
            yield Finding(
                "podgroup-over-quota",
                Severity.ERROR,
                named(group),
                "spec.preemptibility",
                f"the gang can't be preempted, so it must fit the quota: it needs {words(needed, place)}, and queue "
                f"{queue.metadata.name} has {words(quota, place)}",
                f"make it preemptible, or raise the quota to {words(needed, place)} or more",
                f"kubectl patch podgroups.scheduling.run.ai -n {group.metadata.namespace} {group.metadata.name} "
                '--type merge -p \'{"spec":{"preemptibility":"preemptible"}}\'',
            )
            return


def _is_non_preemptible(group: PodGroup, priorities: dict[str, int]) -> bool:
    if group.spec.preemptibility:
        return group.spec.preemptibility == "non-preemptible"
    priority = priorities.get(group.spec.priorityClassName, keys.DEFAULT_WORK_PRIORITY)
    return priority >= keys.NON_PREEMPTIBLE_PRIORITY
