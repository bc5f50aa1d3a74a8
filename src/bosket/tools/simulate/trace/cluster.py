"""The simulated cluster of a trace: nodes, racks, queues, and the pod group and pods of each job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bosket.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from bosket.api.kai import PodGroup, PodGroupSpec, QueueResource, QueueResources, QueueSpec, Topology
from bosket.api.kai import Queue as QueueObject
from bosket.api.kai.podgroup import TopologyConstraint
from bosket.api.kai.topology import TopologyLevel, TopologySpec
from bosket.api.keys import POD_GROUP_ANNOTATION, RUN_TIME_LIMIT_ANNOTATION, SCHEDULER_NAME, USER_LABEL
from bosket.api.object import ObjectMeta
from bosket.api.quantity import Quantity
from bosket.api.time import format_duration, format_micro_time, format_time
from bosket.tools.simulate.trace.job import TraceJob

NAMESPACE: Final = "trace"
#: The queue of all jobs, where clusters have none of their own.
ONLY_QUEUE: Final = "all"
_GPU: Final = "nvidia.com/gpu"
_RACK_LABEL: Final = "bosket.dev/rack"
_TOPOLOGY: Final = "racks"


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How many GPUs there are, and how they are arranged and divided."""

    gpus: int
    gpus_per_node: int = 8
    rack_size: int | None = None  #: nodes of a rack; a gang that fits into a rack must then be in one
    quotas: Mapping[str, float] = field(default_factory=dict)  #: GPUs by cluster of the trace, each a queue then

    @property
    def rack_gpus(self) -> int:
        return self.gpus_per_node * (self.rack_size or 0)

    def queue_of(self, job: TraceJob) -> str:
        return job.cluster if self.quotas else ONLY_QUEUE

    def nodes(self) -> Iterator[Node]:
        """All nodes; the last one has what is left of the GPUs."""
        for number, first in enumerate(range(0, self.gpus, self.gpus_per_node)):
            gpus = min(self.gpus_per_node, self.gpus - first)
            has: dict[str, Quantity] = {"cpu": "1000", "memory": "1000Gi", "pods": "100000", _GPU: str(gpus)}
            labels = {_RACK_LABEL: f"rack-{number // self.rack_size}"} if self.rack_size else {}
            metadata = ObjectMeta(name=f"node-{number:05d}", labels=labels)
            yield Node(metadata=metadata, status=NodeStatus(capacity=has, allocatable=has))

    def topologies(self) -> Iterator[Topology]:
        if self.rack_size:
            levels = (TopologyLevel(nodeLabel=_RACK_LABEL),)
            yield Topology(metadata=ObjectMeta(name=_TOPOLOGY), spec=TopologySpec(levels=levels))

    def queues(self, jobs: list[TraceJob], created: float) -> Iterator[QueueObject]:
        """One queue for all jobs; where quotas are given, one for each cluster of the trace."""
        for name in sorted({self.queue_of(job) for job in jobs}):
            free = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
            gpu = QueueResource(quota=self.quotas.get(name, 0.0), limit=-1, overQuotaWeight=1) if self.quotas else free
            spec = QueueSpec(resources=QueueResources(gpu=gpu, cpu=free, memory=free))
            yield QueueObject(metadata=ObjectMeta(name=name, creationTimestamp=format_time(created)), spec=spec)

    def gang(self, job: TraceJob) -> tuple[PodGroup, list[Pod]]:
        """The job's pod group and its pods: as many whole nodes as it fills, and one pod with the rest."""
        sizes = [self.gpus_per_node] * (job.gpus // self.gpus_per_node)
        if rest := job.gpus % self.gpus_per_node:
            sizes.append(rest)
        spec = PodGroupSpec(minMember=len(sizes), queue=self.queue_of(job))
        if len(sizes) > 1 and job.gpus <= self.rack_gpus:
            constraint = TopologyConstraint(topology=_TOPOLOGY, requiredTopologyLevel=_RACK_LABEL)
            spec = msgspec.structs.replace(spec, topologyConstraint=constraint)
        limit = {} if job.limit_seconds is None else {RUN_TIME_LIMIT_ANNOTATION: format_duration(job.limit_seconds)}
        metadata = msgspec.structs.replace(_metadata(job.name, job.arrival, limit), labels={USER_LABEL: job.cluster})
        group = PodGroup(metadata=metadata, spec=spec)
        annotations = {POD_GROUP_ANNOTATION: job.name}
        pods = [
            Pod(metadata=_metadata(f"{job.name}-{member}", job.arrival, annotations), spec=_pod_spec(size))
            for member, size in enumerate(sizes)
        ]
        return group, pods


def running(pod: Pod, node: str, since: float) -> Pod:
    """The pod as it is once it runs on a node."""
    spec = msgspec.structs.replace(pod.spec, nodeName=node)
    return msgspec.structs.replace(
        pod, spec=spec, status=PodStatus(phase="Running", startTime=format_micro_time(since))
    )


def waiting(pod: Pod) -> Pod:
    """The pod that replaces one that was evicted."""
    spec = msgspec.structs.replace(pod.spec, nodeName="")
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Pending"))


def _pod_spec(gpus: int) -> PodSpec:
    wants: dict[str, Quantity] = {_GPU: str(gpus)}
    container = Container(name="main", image="work", resources=ResourceRequirements(requests=wants, limits=wants))
    return PodSpec(containers=(container,), schedulerName=SCHEDULER_NAME)


def _metadata(name: str, created: float, annotations: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(
        name=name, namespace=NAMESPACE, uid=name, annotations=annotations, creationTimestamp=format_time(created)
    )
