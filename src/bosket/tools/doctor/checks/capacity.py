"""What queues are promised, beside what nodes have; and nodes that have less than they say."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api import keys
from bosket.api.core import Node
from bosket.api.kai import QueueResources
from bosket.api.shared_gpu import read_whole
from bosket.scheduler.model.resource import QueueAmounts
from bosket.tools.doctor.amount import RESOURCES, as_quota, bounds, exceeds, held_by, total, words
from bosket.tools.doctor.checks.queue_tree import set_amount
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

_MOST_GPUS = 10**6


def check(installation: Installation) -> Iterator[Finding]:
    """Quotas of top-level queues that are more than the nodes of their shard have."""
    for pool in sorted(installation.pools):
        nodes = [node for node in installation.nodes.values() if installation.pool_of(node) == pool]
        queues = [
            queue
            for queue in installation.queues.values()
            if installation.pool_of(queue) == pool and not queue.spec.parentQueue
        ]
        if not nodes:
            continue  # another check reports a shard without nodes
        capacity = total(map(held_by, nodes))
        quotas: list[QueueAmounts] = []
        for queue in queues:
            gpu, cpu, memory = bounds(queue.spec.resources or QueueResources(), "quota")
            quotas.append((max(gpu, 0.0), max(cpu, 0.0), max(memory, 0.0)))
        promised = total(quotas)
        for place in exceeds(promised, capacity):
            largest = max(range(len(queues)), key=lambda number: quotas[number][place])
            # What is too much, taken from the largest.
            lowered = max(0.0, quotas[largest][place] - (promised[place] - capacity[place]))
            where = f'node pool "{pool}"' if pool else "the cluster"
            yield Finding(
                "quota-over-capacity",
                Severity.WARNING,
                named(queues[largest]),
                f"spec.resources.{RESOURCES[place]}.quota",
                f"top-level queues are promised {words(promised, place)} together, but {where} has "
                f"{words(capacity, place)}: when all of them ask, some don't get their quota, and non-preemptible work "
                "may wait for ever",
                f"lower the quotas of {some(queue.metadata.name for queue in queues)}, or add nodes",
                set_amount(queues[largest], RESOURCES[place], "quota", as_quota(lowered, place)),
            )


def check_devices(installation: Installation) -> Iterator[Finding]:
    """Nodes whose GPUs are missing, and pools that mix vendors."""
    vendors: dict[str, dict[str, list[str]]] = {}
    for node in installation.nodes.values():
        for resource in keys.GPU_RESOURCES:
            if read_whole(str(node.status.allocatable.get(resource, "")), _MOST_GPUS):
                of_pool = vendors.setdefault(installation.pool_of(node), {})
                of_pool.setdefault(resource, []).append(node.metadata.name)
        yield from _check_plugin(node)
    for pool, by_resource in vendors.items():
        if len(by_resource) < 2:
            continue
        kinds = "; ".join(f"{resource}: {counted(len(names), 'node')}" for resource, names in by_resource.items())
        rarer = min(by_resource.values(), key=len)
        yield Finding(
            "gpu-kinds-mixed",
            Severity.INFO,
            f"Node {rarer[0]}",
            "status.allocatable",
            f'node pool "{pool}" has GPUs of both vendors ({kinds}), which count alike in quotas and limits: a queue '
            "may use up its quota on those it can't work with",
            "put them into shards of their own",
            f"kubectl label node {rarer[0]} {keys.NODE_POOL_LABEL}=…",
        )


def _check_plugin(node: Node) -> Iterator[Finding]:
    labelled = read_whole(node.metadata.labels.get(keys.NODE_GPU_COUNT_LABEL, ""), _MOST_GPUS) or 0
    has_mig = any(name.startswith(keys.MIG_RESOURCE_PREFIX) for name in node.status.allocatable)
    there = sum(
        read_whole(str(node.status.allocatable.get(resource, "")), _MOST_GPUS) or 0 for resource in keys.GPU_RESOURCES
    )
    if labelled and not there and not has_mig:
        yield Finding(
            "node-gpus-missing",
            Severity.WARNING,
            named(node),
            "status.allocatable[nvidia.com/gpu]",
            f"the node is labelled with {counted(labelled, 'GPU')} and offers none: no GPU pod is scheduled to it",
            "see whether the device plugin runs on the node",
            f"kubectl get pods --all-namespaces --field-selector spec.nodeName={node.metadata.name}",
        )
