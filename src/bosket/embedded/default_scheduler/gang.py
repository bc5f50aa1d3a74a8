"""The gang API of Kubernetes (scheduling.k8s.io) in the words that `decide` understands. Pure.

A pod that names a PodGroup belongs to the tree of groups around it: the PodGroup, the CompositePodGroup that this one
names as its parent, and so on. The topmost group that binds its members together is the root, and becomes one internal
pod group whose sub-groups are the rest of the tree. A pod that no group binds to others is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.kai import PodGroup as Gang
from bosket.api.kai import PodGroupSpec as GangSpec
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec, SubGroup, Topology, TopologySpec
from bosket.api.kai import TopologyConstraint as GangTopology
from bosket.api.kai.topology import TopologyLevel
from bosket.api.keys import POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup
from bosket.api.scheduling_k8s.v1beta1 import PodGroup

#: The one queue that all pods of the default scheduler are in.
QUEUE_NAME: Final = "default-scheduler"
#: Kubernetes allows no deeper trees; what is deeper, or goes round in a circle, is not scheduled.
DEEPEST: Final = 4
#: How long a gang that may preempt nobody waits before it does.
_NEVER: Final = "876000h"

Group = PodGroup | CompositePodGroup
RootKind = Literal["pod", "group", "composite"]


class Root(NamedTuple):
    """What is scheduled as one: a pod, a PodGroup, or a CompositePodGroup with all that is below it."""

    kind: RootKind
    key: ObjectKey

    @property
    def gang_key(self) -> ObjectKey:
        """Of the internal pod group; no two roots share one, though a pod and a group may have the same name."""
        return ObjectKey(self.key.namespace, f"{self.kind}.{self.key.name}")


class Urgency(NamedTuple):
    """What a root takes over from its pods: their priority, and whether they may preempt others."""

    priority: int
    preempts: bool


#: PodGroups and CompositePodGroups directly below a CompositePodGroup.
Children = Callable[[ObjectKey], Iterable[Group]]


def leaf_of(pod: Pod) -> ObjectKey | None:
    """The PodGroup that a pod names."""
    group = pod.spec.schedulingGroup
    if group is None or not group.podGroupName:
        return None
    return ObjectKey(pod.metadata.namespace, group.podGroupName)


def root_of(
    pod: Pod,
    group_at: Callable[[ObjectKey], PodGroup | None],
    composite_at: Callable[[ObjectKey], CompositePodGroup | None],
) -> Root | None:
    """The root that a pod is scheduled with; None while a group that it names isn't there, or can't be."""
    leaf = leaf_of(pod)
    if leaf is None:
        return Root("pod", pod.key)
    group = group_at(leaf)
    if group is None:
        return None
    root = Root("group", leaf) if _binds_together(group) else Root("pod", pod.key)
    parent = group.spec.parentCompositePodGroupName
    for _ in range(DEEPEST):
        if not parent:
            return root
        key = ObjectKey(leaf.namespace, parent)
        composite = composite_at(key)
        if composite is None:
            return None
        if _binds_together(composite):
            root = Root("composite", key)
        parent = composite.spec.parentCompositePodGroupName
    return root if not parent else None


def _binds_together(group: Group) -> bool:
    """A basic policy lets members be scheduled one by one; a topology is shared even so."""
    return group.spec.schedulingPolicy.gang is not None or bool(topology_key(group))


def topology_key(group: Group) -> str:
    """The node label whose values are the domains of which the group shares one; empty: anywhere."""
    constraints = group.spec.schedulingConstraints
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""


def member(pod: Pod, root: Root) -> Pod:
    """The pod as the scheduler sees it: of its internal pod group, and of the sub-group that its PodGroup became."""
    meta = pod.metadata
    labels = {key: value for key, value in meta.labels.items() if key != SUBGROUP_LABEL}
    leaf = leaf_of(pod)
    if root.kind == "composite" and leaf is not None:
        labels[SUBGROUP_LABEL] = leaf.name
    annotations = {**meta.annotations, POD_GROUP_ANNOTATION: root.gang_key.name}
    return replace(pod, metadata=replace(meta, labels=labels, annotations=annotations))


def unmanaged(pod: Pod) -> Pod:
    """The pod as the scheduler sees it while it belongs to no gang: it waits."""
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key != POD_GROUP_ANNOTATION}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def gang_of_pod(pod: Pod, urgency: Urgency) -> Gang:
    """A pod alone."""
    return _gang(Root("pod", pod.key), pod, GangSpec(minMember=1), urgency)


def gang_of_group(group: PodGroup, urgency: Urgency) -> Gang:
    """A PodGroup alone."""
    spec = GangSpec(minMember=minimum(group), topologyConstraint=_topology(group))
    return _gang(Root("group", group.key), group, spec, urgency)


def gang_of_tree(top: CompositePodGroup, children: Children, urgency: Urgency) -> Gang:
    """A CompositePodGroup and all that is below it."""
    parts: list[SubGroup] = []
    _add_parts(top.key, None, children, parts, DEEPEST)
    direct = sum(part.parent is None for part in parts)
    spec = GangSpec(
        minSubGroup=min(minimum(top), direct) if direct else None,
        subGroups=tuple(parts),
        topologyConstraint=_topology(top),
    )
    return _gang(Root("composite", top.key), top, spec, urgency)


def _add_parts(above: ObjectKey, parent: str | None, children: Children, parts: list[SubGroup], depth: int) -> None:
    if not depth:
        return
    for child in sorted(children(above), key=lambda each: (type(each).__name__, each.metadata.name)):
        if isinstance(child, PodGroup):
            name, least = child.metadata.name, minimum(child)
            parts.append(
                SubGroup(name=name, minMember=least, parent=parent, topologyConstraint=_topology(child))
            )  # fmt: skip
            continue
        # A PodGroup may have the same name; pods name PodGroups, so these keep theirs.
        name = f"composite.{child.metadata.name}"
        parts.append(
            SubGroup(name=name, minSubGroup=minimum(child), parent=parent, topologyConstraint=_topology(child))
        )  # fmt: skip
        _add_parts(child.key, name, children, parts, depth - 1)


def minimum(group: Group) -> int:
    """How many pods, or groups, start together or not at all; 1: each on its own."""
    if isinstance(group, PodGroup):
        gang = group.spec.schedulingPolicy.gang
        return gang.minCount if gang is not None else 1
    policy = group.spec.schedulingPolicy.gang
    return policy.minGroupCount if policy is not None else 1


def _topology(group: Group) -> GangTopology | None:
    key = topology_key(group)
    return GangTopology(topology=key, requiredTopologyLevel=key) if key else None


def _gang(root: Root, source: KubeObject, spec: GangSpec, urgency: Urgency) -> Gang:
    meta, key = source.metadata, root.gang_key
    return Gang(
        metadata=ObjectMeta(
            name=key.name,
            namespace=key.namespace,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
            creationTimestamp=meta.creationTimestamp,
        ),
        spec=replace(
            spec,
            queue=QUEUE_NAME,
            priorityClassName=priority_class(urgency.priority).metadata.name,
            preemptibility="preemptible",
            preemptionDelay=None if urgency.preempts else _NEVER,
        ),
    )


def priority_class(value: int) -> PriorityClass:
    """The internal class of a priority. Real ones aren't shown: a pod without a class has 0 here, and 50 in KAI."""
    return PriorityClass(metadata=ObjectMeta(name=f"priority.{value}"), value=value)


def topology(key: str) -> Topology:
    """The internal Topology of one level, the node label that a group's constraint names."""
    return Topology(metadata=ObjectMeta(name=key), spec=TopologySpec(levels=(TopologyLevel(nodeLabel=key),)))


def queue() -> Queue:
    """The queue of all: owed everything, limited by nothing."""
    unlimited = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)
    resources = QueueResources(gpu=unlimited, cpu=unlimited, memory=unlimited)
    return Queue(metadata=ObjectMeta(name=QUEUE_NAME), spec=QueueSpec(resources=resources))
