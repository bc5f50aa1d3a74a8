"""Changes that people ask about, as edits of a draft: quotas, drained nodes, added nodes, deleted objects.

Each edit takes the text that was written on the command line, and raises `EditError` that names it and says what would
be right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bosket.api.core import Node, Pod, Taint
from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.kai import PodGroup, Queue, QueueResource, QueueResources
from bosket.api.keys import POD_GROUP_ANNOTATION, TOP_OWNER_ANNOTATION
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.api.quantity import InvalidQuantity, parse
from bosket.api.table import resource_of
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.answers.virtual_cluster import comes_back
from bosket.scheduler.recording.object_lists import LISTS

#: More nodes than this no cluster gets at once.
MOST_NODES: Final = 10_000
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_SETTING: Final = re.compile(
    r"(?P<queue>[^=]+?)\.(?:(?P<resource>gpu|cpu|memory)\.(?P<field>quota|limit|overQuotaWeight|weight)|(?P<own>priority))"
    r"=(?P<value>.*)"
)
_ADDED: Final = re.compile(r"(?P<count>[0-9]{1,6})(?::like=(?P<node>.+))?", re.ASCII)
_HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


class EditError(ValueError):
    """A change that can't be made, and why."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain does."""

    what: str  #: as it was asked for: a node, or a label and its value
    nodes: tuple[str, ...]
    evicted: tuple[Pod, ...]  #: that leave, as they were
    lost: tuple[Pod, ...]  #: those of them that nobody makes anew
    blocked: tuple[tuple[Pod, str], ...]  #: that stay, each with the disruption budget that keeps it


def set_queue(draft: Draft, text: str) -> None:
    """`team-a.gpu.quota=8`: GPUs, cores (`4` or `500m`) and bytes (`64Gi`), or `unlimited`; `team-a.priority=200`."""
    match = _SETTING.fullmatch(text)
    if match is None:
        raise EditError(
            f"--set {text}: write QUEUE.RESOURCE.FIELD=VALUE with gpu, cpu or memory and quota, limit or "
            "overQuotaWeight, such as team-a.gpu.quota=8; or QUEUE.priority=VALUE"
        )
    queue = draft.get(Queue, ObjectKey("", match["queue"]))
    if queue is None:
        known = ", ".join(sorted(each.metadata.name for each in draft.objects(Queue)))
        raise EditError(f"--set {text}: there is no queue {match['queue']}; there are: {known or 'none'}")
    if match["own"]:
        changes: dict[str, Any] = {"priority": _whole(text, match["value"])}
    else:
        resources = queue.spec.resources or QueueResources()
        share: QueueResource = getattr(resources, match["resource"])
        field = "overQuotaWeight" if match["field"] == "weight" else match["field"]
        is_weight = field == "overQuotaWeight"
        value = _weight(text, match["value"]) if is_weight else _amount(text, match["resource"], match["value"])
        changed = msgspec.structs.replace(share, **{field: value})
        changes = {"resources": msgspec.structs.replace(resources, **{match["resource"]: changed})}
    draft.put(msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, **changes)))


def _whole(text: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise EditError(f"--set {text}: a priority is a whole number") from None


def _weight(text: str, value: str) -> float:
    try:
        weight = float(value)
    except ValueError:
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise EditError(f"--set {text}: a weight is a number, 0 or more")
    return weight


def _amount(text: str, resource: str, value: str) -> float:
    """In the units of queues: GPUs, thousandths of a core, megabytes of 10^6 bytes."""
    if value in ("unlimited", "-1"):
        return -1.0
    example = {"gpu": "8", "cpu": "4 or 500m", "memory": "64Gi"}[resource]
    try:
        amount = float(parse(value))
    except InvalidQuantity:
        amount = -1.0
    if amount < 0:
        raise EditError(f"--set {text}: the value is {value}; write an amount such as {example}, or unlimited")
    return amount * {"gpu": 1.0, "cpu": 1000.0, "memory": 1e-6}[resource]


def drain(draft: Draft, text: str) -> Drained:
    """`node-7` or `rack=r2`: the nodes take no more pods, and their pods leave, as `kubectl drain` has them.

    Pods of DaemonSets stay. A pod stays, too, when its disruption budget allows no more disruptions.
    """
    nodes = _nodes(draft, text)
    for node in nodes:
        taints = tuple(each for each in node.spec.taints if each.key != UNSCHEDULABLE.key)
        spec = msgspec.structs.replace(node.spec, unschedulable=True, taints=(*taints, UNSCHEDULABLE))
        draft.put(msgspec.structs.replace(node, spec=spec))
    names = {node.metadata.name for node in nodes}
    budgets = {each.key: each for each in draft.objects(PodDisruptionBudget)}
    left = {key: each.status.disruptionsAllowed for key, each in budgets.items()}
    evicted: list[Pod] = []
    lost: list[Pod] = []
    blocked: list[tuple[Pod, str]] = []
    for pod in sorted(draft.objects(Pod), key=lambda each: each.key):
        if pod.spec.nodeName not in names or pod.metadata.deletionTimestamp is not None:
            continue
        if pod.status.phase in ("Succeeded", "Failed") or any(
            each.kind == "DaemonSet" for each in pod.metadata.ownerReferences
        ):
            continue
        guards = [key for key, each in budgets.items() if _guards(each, pod)]
        if spent := next((key for key in guards if left[key] <= 0), None):
            blocked.append((pod, str(spent)))
            continue
        for key in guards:
            left[key] -= 1
        evicted.append(pod)
        if not comes_back(pod):
            lost.append(pod)
        draft.evict(pod)
    return Drained(text, tuple(sorted(names)), tuple(evicted), tuple(lost), tuple(blocked))


def _nodes(draft: Draft, text: str) -> list[Node]:
    label, equals, value = text.partition("=")
    if not equals:
        node = draft.get(Node, ObjectKey("", text))
        if node is None:
            raise EditError(f"--drain {text}: there is no node {text}; several are named by LABEL=VALUE")
        return [node]
    found = [node for node in draft.objects(Node) if node.metadata.labels.get(label) == value]
    if not found:
        values = sorted({node.metadata.labels[label] for node in draft.objects(Node) if label in node.metadata.labels})
        known = f"; the label's values are {', '.join(values[:10])}" if values else "; no node has this label"
        raise EditError(f"--drain {text}: no node has the label {label}={value}{known}")
    return found


def _guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or pod.status.phase != "Running":
        return False
    try:
        return label_selector(budget.spec.selector).matches(pod.metadata.labels)
    except InvalidSelector:
        return False


def add_nodes(draft: Draft, text: str) -> tuple[str, ...]:
    """`4:like=node-7`: so many nodes as that one, empty; without a node, like the one with the most GPUs. Their
    names."""
    match = _ADDED.fullmatch(text)
    count = int(match["count"]) if match is not None else 0
    if match is None or not 0 < count <= MOST_NODES:
        raise EditError(f"--add-nodes {text}: write a number from 1 to {MOST_NODES}, such as 4 or 4:like=NODE")
    model = _model(draft, text, match["node"])
    taken = {node.metadata.name for node in draft.objects(Node)}
    names = [name for number in range(1, count + len(taken) + 1) if (name := f"added-{number}") not in taken][:count]
    for name in names:
        labels = model.metadata.labels | {_HOSTNAME_LABEL: name}
        metadata = msgspec.structs.replace(
            model.metadata, name=name, uid=f"plan-node-{name}", resourceVersion="", labels=labels
        )
        taints = tuple(each for each in model.spec.taints if each.key != UNSCHEDULABLE.key)
        spec = msgspec.structs.replace(model.spec, unschedulable=False, taints=taints, providerID="")
        draft.put(msgspec.structs.replace(model, metadata=metadata, spec=spec))
    return tuple(names)


def _model(draft: Draft, text: str, name: str | None) -> Node:
    if name is not None:
        node = draft.get(Node, ObjectKey("", name))
        if node is None:
            raise EditError(f"--add-nodes {text}: there is no node {name} that they could be like")
        return node
    usable = [node for node in draft.objects(Node) if not node.spec.unschedulable]
    if not usable:
        raise EditError(f"--add-nodes {text}: there is no node that they could be like; --snapshot has none")
    return max(usable, key=lambda node: (_gpus(node), node.metadata.name))


def _gpus(node: Node) -> float:
    found = (float(amount) for name, amount in node.status.allocatable.items() if name.endswith("/gpu"))
    return max(found, default=0.0)


def delete(draft: Draft, text: str, namespace: str) -> tuple[KubeObject, ...]:
    """`Queue/team-a`, `PodGroup/NAMESPACE/NAME`, `Pod/NAME`, `Node/NAME`, or a workload by its kind: what goes with
    it."""
    kind, _, name = text.partition("/")
    if not kind or not name:
        raise EditError(f"--delete {text}: write KIND/NAME or KIND/NAMESPACE/NAME, such as Queue/team-a")
    struct = _struct(kind)
    within, _, bare = name.rpartition("/")
    if struct is None:
        return _delete_workload(draft, text, kind, ObjectKey(within or namespace, bare))
    key = ObjectKey(within or namespace, bare) if resource_of(struct).namespaced else ObjectKey("", name)
    found = draft.get(struct, key)
    if found is None:
        raise EditError(f"--delete {text}: there is no {resource_of(struct).kind} {key}")
    going: list[KubeObject] = [found]
    if isinstance(found, Node):
        going += [pod for pod in draft.objects(Pod) if pod.spec.nodeName == found.metadata.name]
    if isinstance(found, PodGroup):
        going += _members(draft, found.key)
    for obj in going:
        if isinstance(obj, Pod) and isinstance(found, Node):
            draft.evict(obj, at_once=True)
        elif isinstance(obj, Pod):
            draft.end(obj)
        else:
            draft.drop(obj)
    return tuple(going)


def _struct(kind: str) -> type[KubeObject] | None:
    for each in LISTS.values():
        resource = resource_of(each.kind)
        if kind.lower() in (resource.kind.lower(), resource.plural.lower(), *resource.short_names):
            return each.kind
    return None


def _members(draft: Draft, group: ObjectKey) -> list[Pod]:
    return [
        pod
        for pod in draft.objects(Pod)
        if pod.metadata.namespace == group.namespace
        and pod.metadata.annotations.get(POD_GROUP_ANNOTATION) == group.name
    ]


def _delete_workload(draft: Draft, text: str, kind: str, key: ObjectKey) -> tuple[KubeObject, ...]:
    """A workload isn't among the objects that decisions depend on; its pod groups and pods are, and name it."""
    groups = [
        group
        for group in draft.objects(PodGroup)
        if group.metadata.namespace == key.namespace and _is_owned(group, kind, key.name)
    ]
    pods = {pod.key: pod for group in groups for pod in _members(draft, group.key)}
    pods |= {
        pod.key: pod
        for pod in draft.objects(Pod)
        if pod.metadata.namespace == key.namespace and _is_owned(pod, kind, key.name)
    }
    if not groups and not pods:
        raise EditError(f"--delete {text}: no pod group and no pod in namespace {key.namespace} belongs to it")
    for group in groups:
        draft.drop(group)
    for pod in pods.values():
        draft.end(pod)
    return (*groups, *pods.values())


def _is_owned(obj: KubeObject, kind: str, name: str) -> bool:
    """By its owner references, or, further up, by what the pod grouper noted about the top owner."""
    for each in obj.metadata.ownerReferences:
        if each.kind.lower() == kind.lower() and each.name == name:
            return True
        # A replica set is called after its deployment, and a hash.
        if (kind.lower(), each.kind) == ("deployment", "ReplicaSet") and each.name.rpartition("-")[0] == name:
            return True
    try:
        top = read_yaml(obj.metadata.annotations.get(TOP_OWNER_ANNOTATION, ""))
    except UnreadableDocument:
        return False
    if not isinstance(top, dict):
        return False
    return str(top.get("kind", "")).lower() == kind.lower() and str(top.get("name", "")) == name
