"""Builders of Kubernetes objects for tests: `pod("a").gpu(1).build()`.

Every builder gives back a changed copy of itself, so that a half-made object can be the start of several others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self

from bosket.api.core import (
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)
from bosket.api.kai import (
    PodGroup,
    PodGroupSpec,
    Queue,
    QueueResource,
    QueueResources,
    QueueSpec,
    SubGroup,
    Topology,
    TopologyConstraint,
    TopologyLevel,
    TopologySpec,
)
from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_GROUP_LABEL,
    GPU_GROUP_LABEL_PREFIX,
    GPU_MEMORY_ANNOTATION,
    LAST_EVICTION_ANNOTATION,
    LAST_START_ANNOTATION,
    NODE_GPU_MEMORY_LABEL,
    POD_GROUP_ANNOTATION,
    SCHEDULER_NAME,
    STALE_SINCE_ANNOTATION,
    SUBGROUP_LABEL,
)
from bosket.api.node_topology import AttributeInfo, NodeResourceTopology, ResourceInfo, Zone
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.quantity import Quantity
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import format_time

_ages = count()


@dataclass(frozen=True)
class PodBuilder:
    """A pod of one container, for our scheduler, in namespace `default`."""

    name: str
    namespace: str = "default"
    requests: dict[str, Quantity] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    phase: str = "Pending"
    gates: tuple[str, ...] = ()
    deletion: str | None = None
    scheduler: str = SCHEDULER_NAME
    nominated: str = ""
    is_guaranteed: bool = False
    spec: dict[str, Any] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)

    def gpu(self, amount: int) -> Self:
        return replace(self, requests={**self.requests, "nvidia.com/gpu": str(amount)})

    def shares_gpu(self, portion: float | str, devices: int = 1) -> Self:
        """A part of each of some GPUs."""
        return self._annotated({GPU_FRACTION_ANNOTATION: str(portion)}, devices)

    def gpu_memory(self, mib: int | str, devices: int = 1) -> Self:
        """So much memory of each of some GPUs."""
        return self._annotated({GPU_MEMORY_ANNOTATION: str(mib)}, devices)

    def _annotated(self, annotations: Mapping[str, str], devices: int) -> Self:
        more = {GPU_FRACTION_DEVICES_ANNOTATION: str(devices)} if devices != 1 else {}
        return replace(self, annotations={**self.annotations, **annotations, **more})

    def in_gpu_groups(self, *groups: str) -> Self:
        """On these shared GPUs of its node."""
        if len(groups) == 1:
            return self.label(GPU_GROUP_LABEL, groups[0])
        return replace(self, labels={**self.labels, **{GPU_GROUP_LABEL_PREFIX + each: each for each in groups}})

    def annotate(self, key: str, value: str) -> Self:
        return replace(self, annotations={**self.annotations, key: value})

    def cpu(self, amount: str) -> Self:
        return replace(self, requests={**self.requests, "cpu": amount})

    def memory(self, amount: str) -> Self:
        return replace(self, requests={**self.requests, "memory": amount})

    def asks(self, resource: str, amount: Quantity) -> Self:
        return replace(self, requests={**self.requests, resource: amount})

    def guaranteed(self) -> Self:
        """Limits all that it asks for to just that: with CPU and memory, its quality of service is Guaranteed."""
        return replace(self, is_guaranteed=True)

    def of_group(self, group: str, subgroup: str = "") -> Self:
        labels = {**self.labels, SUBGROUP_LABEL: subgroup} if subgroup else self.labels
        return replace(self, annotations={**self.annotations, POD_GROUP_ANNOTATION: group}, labels=labels)

    def label(self, key: str, value: str) -> Self:
        return replace(self, labels={**self.labels, key: value})

    def only_on(self, key: str, value: str) -> Self:
        return replace(self, node_selector={**self.node_selector, key: value})

    def tolerates(self, key: str, value: str = "") -> Self:
        operator = "Equal" if value else "Exists"
        return replace(self, tolerations=(*self.tolerations, Toleration(key=key, operator=operator, value=value)))

    def running_on(self, node: str) -> Self:
        return replace(self, node_name=node, phase="Running")

    def ended_on(self, node: str, phase: str = "Succeeded") -> Self:
        return replace(self, node_name=node, phase=phase)

    def being_deleted_at(self, now: float) -> Self:
        return replace(self, deletion=format_time(now))

    def nominated_to(self, node: str) -> Self:
        return replace(self, nominated=node)

    def with_spec(self, **fields: Any) -> Self:
        """Sets fields of the pod's spec."""
        return replace(self, spec={**self.spec, **fields})

    def with_container(self, **fields: Any) -> Self:
        """Sets fields of its container."""
        return replace(self, container={**self.container, **fields})

    def gated_by(self, gate: str) -> Self:
        return replace(self, gates=(*self.gates, gate))

    def build(self) -> Pod:
        return Pod(
            metadata=ObjectMeta(
                name=self.name,
                namespace=self.namespace,
                uid=_uid(self.namespace, self.name),
                labels=self.labels,
                annotations=self.annotations,
                deletionTimestamp=self.deletion,
            ),
            spec=PodSpec(
                containers=(
                    Container(name="main", image="example.com/work", resources=self._resources(), **self.container),
                ),
                nodeSelector=self.node_selector,
                tolerations=self.tolerations,
                nodeName=self.node_name,
                schedulerName=self.scheduler,
                schedulingGates=tuple(PodSchedulingGate(name=gate) for gate in self.gates),
                **self.spec,
            ),
            status=PodStatus(phase=self.phase, nominatedNodeName=self.nominated),
        )

    def _resources(self) -> ResourceRequirements:
        """Kubernetes wants a limit for what can't be overcommitted."""
        limits = {name: amount for name, amount in self.requests.items() if self.is_guaranteed or "/" in name}
        return ResourceRequirements(requests=self.requests, limits=limits)


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """A pod that asks for nothing yet."""
    return PodBuilder(name, namespace)


def gang(
    name: str, size: int, *, gpus: int = 1, namespace: str = "default", on: str | Sequence[str] = (), subgroup: str = ""
) -> list[Pod]:
    """`size` equal pods of the pod group `name`. `on`: where all of them run, or the first ones, each on its node."""
    nodes = [on] * size if isinstance(on, str) else on
    stem = f"{name}-{subgroup}" if subgroup else name
    members = [pod(f"{stem}-{i}", namespace).gpu(gpus).of_group(name, subgroup) for i in range(size)]
    running = [member.running_on(node) for member, node in zip(members, nodes, strict=False)]
    return [member.build() for member in [*running, *members[len(running) :]]]


def job(
    name: str,
    size: int = 1,
    *,
    gpus: int = 1,
    on: str | Sequence[str] = (),
    min_member: int | None = None,
    namespace: str = "default",
    **group: Any,
) -> list[KubeObject]:
    """A pod group with `size` equal pods, as `gang` makes them; all of them needed unless `min_member` says less.

    What else is given is for `pod_group`.
    """
    minimum = size if min_member is None else min_member
    made = pod_group(name, min_member=minimum, namespace=namespace, **group)
    return [made, *gang(name, size, gpus=gpus, namespace=namespace, on=on)]


def node(
    name: str,
    *,
    gpus: int = 8,
    cpu: str = "64",
    memory: str = "512Gi",
    pods: int = 110,
    extended: Mapping[str, Quantity] | None = None,
    gpu_memory: int | None = None,
    labels: Mapping[str, str] | None = None,
    **short_labels: str,
) -> Node:
    """A ready node; `extended` are resources that Kubernetes itself doesn't know, `gpu_memory` MiB of each GPU.

    Labels whose keys are Python names may be given as such: `node("n", zone="a")`.
    """
    own_labels = {**short_labels, **(labels or {})}
    if gpu_memory is not None:
        own_labels[NODE_GPU_MEMORY_LABEL] = str(gpu_memory)
    allocatable: dict[str, Quantity] = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extended or {})}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return Node(
        metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **own_labels}),
        spec=NodeSpec(),
        status=NodeStatus(
            capacity=allocatable, allocatable=allocatable, conditions=(NodeCondition(type="Ready", status="True"),)
        ),
    )


def numa_zones(
    node_name: str, *zones: Mapping[str, Quantity], policy: str = "single-numa-node", scope: str = "pod"
) -> NodeResourceTopology:
    """What a node's zones have, and how its kubelet aligns pods; they are called node-0, node-1 and so on."""
    return NodeResourceTopology(
        metadata=ObjectMeta(name=node_name),
        attributes=(
            AttributeInfo(name="topologyManagerPolicy", value=policy),
            AttributeInfo(name="topologyManagerScope", value=scope),
        ),
        zones=tuple(
            Zone(
                name=f"node-{number}",
                type="Node",
                resources=tuple(
                    ResourceInfo(name=name, capacity=amount, allocatable=amount, available=amount)
                    for name, amount in zone.items()
                ),
            )
            for number, zone in enumerate(zones)
        ),
    )


def tainted(base: Node, key: str, value: str = "", effect: str = "NoSchedule") -> Node:
    """The same node with a taint."""
    import msgspec

    spec = msgspec.structs.replace(base.spec, taints=(*base.spec.taints, Taint(key=key, value=value, effect=effect)))
    return msgspec.structs.replace(base, spec=spec)


def cordoned(base: Node) -> Node:
    """The same node, taking no new pods."""
    import msgspec

    return msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, unschedulable=True))


#: What a queue has of a resource that it needn't count.
UNBOUNDED = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)


def queue(
    name: str,
    *,
    parent: str = "",
    quota: float = -1,
    limit: float = -1,
    weight: float = 1,
    priority: int | None = None,
    cpu: QueueResource = UNBOUNDED,
    memory: QueueResource = UNBOUNDED,
    preempt_min_runtime: str | None = None,
    reclaim_min_runtime: str | None = None,
) -> Queue:
    """A queue with the given GPU amounts; CPU (in millicores) and memory (in megabytes) have no bounds by default."""
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(
            parentQueue=parent,
            priority=priority,
            preemptMinRuntime=preempt_min_runtime,
            reclaimMinRuntime=reclaim_min_runtime,
            resources=QueueResources(
                gpu=QueueResource(quota=quota, limit=limit, overQuotaWeight=weight), cpu=cpu, memory=memory
            ),
        ),
    )


def pod_group(
    name: str,
    *,
    min_member: int | None = 1,
    queue: str = "q",
    priority: str = "",
    namespace: str = "default",
    preemptibility: str = "",
    subgroups: tuple[SubGroup, ...] = (),
    min_subgroup: int | None = None,
    created: float | None = None,
    preemption_delay: str | None = None,
    staleness_grace: str | None = None,
    started: float | None = None,
    evicted: float | None = None,
    stale_since: float | None = None,
    topology: TopologyConstraint | None = None,
) -> PodGroup:
    """A pod group. Without a creation time, each is a second younger than the one before.

    Times are epoch seconds.
    """
    history = {LAST_START_ANNOTATION: started, LAST_EVICTION_ANNOTATION: evicted, STALE_SINCE_ANNOTATION: stale_since}
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=_uid(namespace, name),
            creationTimestamp=format_time(1.7e9 + next(_ages) if created is None else created),
            annotations={key: format_time(when) for key, when in history.items() if when is not None},
        ),
        spec=PodGroupSpec(
            minMember=None if subgroups else min_member,
            minSubGroup=min_subgroup,
            topologyConstraint=topology,
            queue=queue,
            priorityClassName=priority,
            preemptibility=preemptibility,  # type: ignore[arg-type]
            subGroups=subgroups,
            preemptionDelay=preemption_delay,
            stalenessGracePeriod=staleness_grace,
        ),
    )


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """A priority class."""
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, globalDefault=default)


def _uid(namespace: str, name: str) -> str:
    """Unique over all namespaces, and easy to guess in the one that tests use."""
    return f"uid-{name}" if namespace == "default" else f"uid-{namespace}-{name}"


def topology(name: str, *labels: str, aliases: Mapping[str, str] | None = None) -> Topology:
    """A topology with these node labels as levels, the widest first; `aliases` by label."""
    levels = tuple(TopologyLevel(nodeLabel=label, alias=(aliases or {}).get(label)) for label in labels)
    return Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=levels))


def within(topology_name: str, required: str = "", preferred: str = "") -> TopologyConstraint:
    """Keeps pods together."""
    return TopologyConstraint(topology=topology_name, requiredTopologyLevel=required, preferredTopologyLevel=preferred)
