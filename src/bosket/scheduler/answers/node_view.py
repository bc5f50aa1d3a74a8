"""The GPUs of each node by who holds them, rack by rack: for `bosket nodes`.

Which device of a node a pod has is the kubelet's business: of whole GPUs only the number is known. Where nodes can't be
read, as for a tenant, there are only those on which its pods run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from bosket.api.keys import RESERVATION_NAMESPACE
from bosket.api.object import ObjectKey
from bosket.scheduler.answers.fragmentation import FragmentationReport, report
from bosket.scheduler.answers.workload_name import shown_names
from bosket.scheduler.model.gpu_share import UNKNOWN_DEVICE_MIB
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_USED, Task, TaskStatus

#: Labels of nodes by which they are arranged where no Topology says it; the first that several values are known of.
_USUAL_LABELS: Final = (
    "bosket.dev/rack",
    "topology.kubernetes.io/rack",
    "cloud.provider.com/topology-rack",
    "topology.kubernetes.io/zone",
)
_HOSTNAME: Final = "kubernetes.io/hostname"
_ENDING: Final = frozenset({TaskStatus.RELEASING, TaskStatus.STUCK_IN_RELEASING})


class NodeError(ValueError):
    """A question about nodes that makes no sense."""


class Holding(msgspec.Struct, frozen=True, rename="camel"):
    """Whole GPUs that the pods of one job hold on a node."""

    queue: str  #: empty for pods of other schedulers
    job: str  #: NAMESPACE/NAME
    gpus: float
    is_ending: bool  #: whether its pods are on their way out


class SharedGpu(msgspec.Struct, frozen=True, rename="camel"):
    """A GPU of which pods use parts."""

    used: float  #: of 1
    queues: tuple[str, ...]


class NodeView(msgspec.Struct, frozen=True, rename="camel"):
    """One node."""

    name: str
    gpus: float | None  #: None: not known
    free: float | None
    fragmented: float | None  #: of the free ones, what the pods that the cluster sees can't use
    holdings: tuple[Holding, ...]  #: by queue and job
    shared: tuple[SharedGpu, ...]
    refuses: str  #: why it takes no pods; empty where it does


class RackView(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that stand together."""

    name: str  #: empty for nodes that belong nowhere
    nodes: tuple[NodeView, ...]


class NodesReport(msgspec.Struct, frozen=True):
    """All nodes with GPUs."""

    fragmentation: FragmentationReport
    by: str  #: the label by which nodes are arranged; empty where they aren't
    racks: tuple[RackView, ...]
    unknown: tuple[str, ...] = ()  #: kinds that can't be read, at least not all of them


def nodes_report(snapshot: Snapshot, by: str | None = None, unread: Collection[str] = ()) -> NodesReport:
    """The nodes, arranged by the label or level of a topology `by`. Raises `NodeError` where no node has such a label.

    `unread`: kinds of which the snapshot doesn't have all objects.
    """
    unknown = tuple(kind for kind in ("Node", "Pod", "PodGroup") if kind in unread)
    jobs = shown_names(job.group for job in snapshot.jobs.values())
    found = report(snapshot)
    if "Node" in unknown:
        return NodesReport(found, "", (RackView("", _nodes_of_jobs(snapshot, jobs)),), unknown)
    fragmented = {each.name: each for each in found.nodes}
    refusals = snapshot.refusals()
    label, places = _arrangement(snapshot, by)
    racks: dict[str, list[NodeView]] = defaultdict(list)
    for row, node in enumerate(snapshot.nodes.nodes):
        gpus = float(snapshot.nodes.allocatable[GPU, row])
        if not gpus:
            continue
        name = node.metadata.name
        holdings, shared = _held(snapshot, snapshot.residents.get(name, ()), jobs, snapshot.nodes.devices.sizes[row])
        seen = fragmented.get(name)
        racks[places[row]].append(
            NodeView(
                name=name,
                gpus=gpus,
                free=max(0.0, gpus - sum(each.gpus for each in holdings) - sum(each.used for each in shared)),
                fragmented=seen.fragmented if seen is not None else 0.0,
                holdings=holdings,
                shared=shared,
                refuses=refusals[row] or "",
            )
        )
    # Nodes that belong nowhere come last.
    ordered = sorted(racks.items(), key=lambda entry: (not entry[0], entry[0]))
    return NodesReport(found, label, tuple(RackView(name, tuple(nodes)) for name, nodes in ordered), unknown)


def _arrangement(snapshot: Snapshot, by: str | None) -> tuple[str, Sequence[str]]:
    """A label, and the name of each node's place by it."""
    nodes = snapshot.nodes.nodes
    for tree in snapshot.topologies.values():
        number = (
            next((at for at in range(len(tree.levels) - 1, 0, -1) if tree.levels[at].label != _HOSTNAME), None)
            if by is None
            else tree.number_of(by)
        )
        if number is not None:
            level = tree.levels[number]
            return level.label, [level.names[at] if at >= 0 else "" for at in level.of_row.tolist()]
    for label in _USUAL_LABELS if by is None else (by,):
        values = [node.metadata.labels.get(label, "") for node in nodes]
        if any(values):
            return label, values
    if by is not None:
        raise NodeError(f"no node has the label {by}, and no Topology a level of that name")
    return "", [""] * len(nodes)


def _held(
    snapshot: Snapshot, tasks: Iterable[Task], jobs: Mapping[ObjectKey, str], device_mib: int
) -> tuple[tuple[Holding, ...], tuple[SharedGpu, ...]]:
    """Who holds whole GPUs, and which GPUs are shared."""
    whole: dict[tuple[str, str, bool], float] = defaultdict(float)
    parts: dict[str, float] = defaultdict(float)
    sharers: dict[str, set[str]] = defaultdict(set)
    for task in tasks:
        if task.key.namespace == RESERVATION_NAMESPACE:
            continue  # it holds the device for those who share it, who are counted themselves
        job = snapshot.jobs.get(task.group) if task.group is not None else None
        queue = job.queue if job is not None else ""
        share = task.pod_class.share
        if share is not None:
            for group in task.gpu_groups:
                parts[group] += share.portion_on(device_mib)
                sharers[group].add(queue)
            continue
        gpus = task.pod_class.amounts[GPU] + task.pod_class.extra_gpus
        if gpus:
            name = jobs[job.key] if job is not None else task.key.name
            whole[queue, f"{task.key.namespace}/{name}", task.status in _ENDING] += gpus
    holdings = tuple(Holding(queue, job, gpus, ending) for (queue, job, ending), gpus in sorted(whole.items()))
    shared = tuple(SharedGpu(min(1.0, parts[group]), tuple(sorted(sharers[group]))) for group in sorted(parts))
    return holdings, shared


def _nodes_of_jobs(snapshot: Snapshot, jobs: Mapping[ObjectKey, str]) -> tuple[NodeView, ...]:
    """The nodes that pods of known jobs are on."""
    by_node: dict[str, list[Task]] = defaultdict(list)
    for job in snapshot.jobs.values():
        for task in job.tasks:
            if task.node and task.status in ACTIVE_USED:
                by_node[task.node].append(task)
    views = []
    for name, tasks in sorted(by_node.items()):
        holdings, shared = _held(snapshot, tasks, jobs, UNKNOWN_DEVICE_MIB)
        views.append(NodeView(name, None, None, None, holdings, shared, ""))
    return tuple(views)
