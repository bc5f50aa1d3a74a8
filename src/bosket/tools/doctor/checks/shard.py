"""Shards: every node, queue and job belongs to one that there is, and every pod to a scheduler that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.condition import find_condition
from bosket.api.core import Pod
from bosket.api.kai import PodGroup, SchedulingShard
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

_DEFAULT_SCHEDULER: Final = "default-scheduler"


def check_shards(installation: Installation) -> Iterator[Finding]:
    """Shards that overlap or are empty, nodes and queues that belong to none."""
    label, pools = installation.pool_label, installation.pools
    shards = installation.bundle.of(SchedulingShard)
    first: dict[str, SchedulingShard] = {}
    for shard in shards:
        value = shard.spec.partitionLabelValue
        if value in first:
            yield Finding(
                "shard-duplicate",
                Severity.ERROR,
                named(shard),
                "spec.partitionLabelValue",
                f'shard {first[value].metadata.name} has the value "{value}", too: two schedulers decide on the same '
                "nodes",
                "give it another value, or delete one of them",
                f"kubectl delete schedulingshard {shard.metadata.name}",
            )
        first.setdefault(value, shard)
    homeless: dict[str, list[str]] = {}
    for node in installation.nodes.values():
        if installation.pool_of(node) not in pools:
            homeless.setdefault(installation.pool_of(node), []).append(node.metadata.name)
    for value, names in homeless.items():
        yield Finding(
            "node-without-shard",
            Severity.WARNING,
            f"Node {names[0]}",
            f"metadata.labels[{label}]",
            f'no shard looks after node pool "{value}", so nothing is scheduled to {counted(len(names), "node")} '
            f"({some(names)})",
            "create a SchedulingShard with this partitionLabelValue, or change the label",
            f"kubectl label node {names[0]} {label}={_some_value(pools)}",
        )
    for queue in installation.queues.values():
        if installation.pool_of(queue) not in pools:
            yield Finding(
                "queue-without-shard",
                Severity.ERROR,
                named(queue),
                f"metadata.labels[{label}]",
                f'no shard looks after node pool "{installation.pool_of(queue)}", so nothing runs in this queue',
                "create a SchedulingShard with this partitionLabelValue, or change the label",
                f"kubectl label queue {queue.metadata.name} {label}={_some_value(pools)} --overwrite",
            )
    for value, shard in first.items():
        yield from _check_members(installation, shard, value)


def _some_value(pools: frozenset[str]) -> str:
    return next((pool for pool in sorted(pools) if pool), "…")


def _check_members(installation: Installation, shard: SchedulingShard, value: str) -> Iterator[Finding]:
    label = installation.pool_label
    for what, members in (("node", installation.nodes.values()), ("queue", installation.queues.values())):
        if any(installation.pool_of(each) == value for each in members):
            continue
        meant = f"the label {label}={value}" if value else f"no label {label}"
        yield Finding(
            f"shard-without-{what}s",
            Severity.WARNING,
            named(shard),
            "spec.partitionLabelValue",
            f"the shard looks after {what}s with {meant}, and there is none: it schedules nothing",
            f"label the {what}s that belong to it, or delete the shard",
            f"kubectl label {what} … {label}{'=' + value if value else '-'}",
        )


def check_groups(installation: Installation) -> Iterator[Finding]:
    """Jobs whose scheduler doesn't see their queue."""
    for group in installation.bundle.of(PodGroup):
        queue = installation.queues.get(group.spec.queue)
        if queue is None or installation.pool_of(queue) == installation.pool_of(group):
            continue
        yield Finding(
            "podgroup-in-other-shard",
            Severity.ERROR,
            named(group),
            f"metadata.labels[{installation.pool_label}]",
            f'the pod group is in node pool "{installation.pool_of(group)}" and its queue {group.spec.queue} in '
            f'"{installation.pool_of(queue)}": its scheduler doesn\'t see the queue, and it waits for ever',
            "give the workload the label of the queue's node pool, or another queue",
            f"kubectl get queues -L {installation.pool_label}",
        )


def check_scheduler_names(installation: Installation) -> Iterator[Finding]:
    """Pods for a scheduler of which there is no sign: none of its pods has a node or a condition."""
    waiting: dict[str, list[Pod]] = {}
    seen: set[str] = {"", _DEFAULT_SCHEDULER, installation.scheduler_name}
    for pod in installation.bundle.of(Pod):
        name = pod.spec.schedulerName
        if pod.spec.nodeName or find_condition(pod.status.conditions, "PodScheduled") is not None:
            seen.add(name)
        elif pod.status.phase == "Pending" and not pod.spec.schedulingGates:
            waiting.setdefault(name, []).append(pod)
    for name, pods in waiting.items():
        if name in seen:
            continue
        yield Finding(
            "scheduler-unknown",
            Severity.ERROR,
            named(pods[0]),
            "spec.schedulerName",
            f'nobody seems to run a scheduler "{name}", which keeps {counted(len(pods), "pod")} '
            f"({some(pod.key for pod in pods)}) waiting without a word",
            f"name {installation.scheduler_name} in the workload, or start that scheduler",
            f"kubectl get pod -n {pods[0].metadata.namespace} {pods[0].metadata.name} -o yaml",
        )
