"""What the default scheduler sees of the cluster, kept up to date: gangs of the gang API as internal objects.

`View` follows pods, PodGroups and CompositePodGroups in the process' shared informers and feeds informers of its own
with internal pod groups, priority classes, topologies and the one queue. `ViewInformers` hands these out in place of
the cluster's, and all others as they are. `ViewTransport` takes what the scheduler writes into internal pod groups, and
keeps it here; everything else goes to the API server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from bosket.api.core import Node, Pod, Taint
from bosket.api.kai import BindRequest, Queue, Topology
from bosket.api.kai import PodGroup as Gang
from bosket.api.keys import CHARGED_ANNOTATION, DEFAULT_SCHEDULER_NAME, POD_GROUP_ANNOTATION
from bosket.api.object import KubeObject, ObjectKey, Status
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup
from bosket.api.scheduling_k8s.v1beta1 import PodGroup
from bosket.api.table import resource_of
from bosket.embedded.default_scheduler import gang as gangs
from bosket.embedded.default_scheduler.gang import Group, Root, Urgency
from bosket.kube.client import Client
from bosket.kube.codec import Kind
from bosket.kube.informer import Change, Informer, Informers
from bosket.kube.patch import merge_patch
from bosket.kube.transport import Request, Response, Stream, Transport

T = TypeVar("T", bound=KubeObject)

BY_LEAF: Final = "default-scheduler/pod-group"
BY_PARENT: Final = "default-scheduler/parent"


def is_ours(pod: Pod) -> bool:
    """Whether the default scheduler looks after the pod."""
    return pod.spec.schedulerName == DEFAULT_SCHEDULER_NAME


#: The taint that stands for each condition of a node that isn't as it should be: what it should be, and the taint.
_CONDITION_TAINTS: Final = {
    "Ready": ("True", "node.kubernetes.io/not-ready"),
    "MemoryPressure": ("False", "node.kubernetes.io/memory-pressure"),
    "DiskPressure": ("False", "node.kubernetes.io/disk-pressure"),
    "PIDPressure": ("False", "node.kubernetes.io/pid-pressure"),
    "NetworkUnavailable": ("False", "node.kubernetes.io/network-unavailable"),
}
_CORDONED: Final = "node.kubernetes.io/unschedulable"


def by_taints_alone(node: Node) -> Node:
    """The node with its troubles as taints: Kubernetes' scheduler lets pods that tolerate them in, daemons above all.

    KAI's rule, by which such a node takes no pods at all, would keep daemons off the nodes that need them.
    """
    keys = [_CORDONED] if node.spec.unschedulable else []
    for condition in node.status.conditions:
        good, key = _CONDITION_TAINTS.get(condition.type, (condition.status, ""))
        if condition.status != good:
            keys.append(key)
    known = {taint.key for taint in node.spec.taints if taint.effect == "NoSchedule"}
    taints = tuple(Taint(key=key, effect="NoSchedule") for key in keys if key not in known)
    if not keys:
        return node
    spec = replace(node.spec, unschedulable=False, taints=(*node.spec.taints, *taints))
    return replace(node, spec=spec, status=replace(node.status, conditions=()))


class LocalInformer(Informer[T]):
    """Objects of one kind that only a view has. Handlers get every change, also one that leaves the version as it
    was."""

    def __init__(self, client: Client, kind: type[T]) -> None:
        super().__init__(client, kind)
        self.objects: dict[ObjectKey, T] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        self._handlers.append(handler)
        for obj in list(self.objects.values()):
            handler(Change(None, obj))

    async def wait_synced(self) -> None:
        return  # whoever made it has waited for what it is made of

    def show(self, key: ObjectKey, obj: T | None) -> None:
        """The object is so from now on; None: gone."""
        old = self.objects.pop(key, None)
        if obj is not None:
            self.objects[key] = obj
        if old is not obj:
            for handler in self._handlers:
                handler(Change(old, obj))


class View:
    """The internal objects, and the way from each internal pod group back to what it stands for."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._pods = informers.of(Pod)
        self._groups = informers.of(PodGroup)
        self._composites = informers.of(CompositePodGroup)
        self._nodes = informers.of(Node)
        self._pods.add_index(BY_LEAF, _leaf_index)
        self._groups.add_index(BY_PARENT, _parent_index)
        self._composites.add_index(BY_PARENT, _parent_index)
        self._roots: dict[ObjectKey, Root] = {}  # by pod
        self._members: defaultdict[Root, dict[ObjectKey, Pod]] = defaultdict(dict)
        self._by_gang: dict[ObjectKey, Root] = {}
        self.pods: LocalInformer[Pod] = LocalInformer(client, Pod)
        self.gangs: LocalInformer[Gang] = LocalInformer(client, Gang)
        self.queues: LocalInformer[Queue] = LocalInformer(client, Queue)
        self._priorities: LocalInformer[PriorityClass] = LocalInformer(client, PriorityClass)
        self._topologies: LocalInformer[Topology] = LocalInformer(client, Topology)
        self._seen_nodes: LocalInformer[Node] = LocalInformer(client, Node)
        self.local: dict[type[KubeObject], Informer[Any]] = {
            Pod: self.pods,
            Node: self._seen_nodes,
            Gang: self.gangs,
            Queue: self.queues,
            PriorityClass: self._priorities,
            Topology: self._topologies,
        }
        self.queues.show(ObjectKey("", gangs.QUEUE_NAME), gangs.queue())
        self._nodes.subscribe(self._node_changed)
        # Groups come first, so that pods find them.
        self._composites.subscribe(self._composite_changed)
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)

    async def wait_synced(self) -> None:
        """Until all that it follows is known."""
        for informer in (self._composites, self._groups, self._pods, self._nodes):
            await informer.wait_synced()

    def groups_of(self, gang: ObjectKey) -> list[Group]:
        """The PodGroups and CompositePodGroups that an internal pod group stands for; none for a pod alone."""
        root = self._by_gang.get(gang)
        if root is None or root.kind == "pod":
            return []
        top = self._group(root)
        return [] if top is None else [top, *self._below(top.key if root.kind == "composite" else None)]

    def source_of(self, gang: ObjectKey) -> KubeObject | None:
        """What an internal pod group is made of: where events about it belong."""
        root = self._by_gang.get(gang)
        if root is None:
            return None
        return self._pods.store.get(root.key) if root.kind == "pod" else self._group(root)

    def patch_gang(self, key: ObjectKey, patch: Any) -> Gang | None:
        """Merges what the scheduler says of an internal pod group; None when that is gone."""
        found = self.gangs.objects.get(key)
        if found is None:
            return None
        kept = {name: patch[name] for name in ("metadata", "status") if name in patch}
        kept.get("metadata", {}).pop("resourceVersion", None)
        merged = msgspec.convert(merge_patch(msgspec.to_builtins(found), kept), Gang)
        self.gangs.show(key, merged)
        return merged

    # --- what changes

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change
        self._seen_nodes.show(cast("Node", new or old).key, by_taints_alone(new) if new is not None else None)

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change
        key = cast("Pod", new or old).key
        before = self._roots.get(key)
        if new is None or not is_ours(new):
            self._leave(key, before)
            self._render(before)
            self.pods.show(key, new)
            return
        self._place(new, before)

    def _place(self, pod: Pod, before: Root | None) -> None:
        """Puts a pod where it belongs now; gangs are shown before their pods, and changed after one left."""
        root = gangs.root_of(pod, self._groups.store.get, self._composites.store.get)
        if before != root:
            self._leave(pod.key, before)
            self._render(before)
        if root is not None:
            self._roots[pod.key] = root
            known = self._members[root].get(pod.key)
            self._members[root][pod.key] = pod
            if known is None or _what_counts(known) != _what_counts(pod):
                self._render(root)
        self.pods.show(pod.key, gangs.member(pod, root) if root is not None else gangs.unmanaged(pod))

    def _leave(self, pod: ObjectKey, root: Root | None) -> None:
        if root is None:
            return
        self._roots.pop(pod, None)
        members = self._members[root]
        members.pop(pod, None)
        if not members:
            del self._members[root]

    def _group_changed(self, change: Change[PodGroup]) -> None:
        old, new = change
        if old is not None and new is not None and (old.metadata.uid, old.spec) == (new.metadata.uid, new.spec):
            return  # only its status, or metadata
        key = cast("PodGroup", new or old).key
        self._renew(self._pods.store.by_index(BY_LEAF, str(key)))
        self._render(Root("group", key))
        for each in (old, new):
            if each is not None and each.spec.parentCompositePodGroupName:
                self._render_above(ObjectKey(key.namespace, each.spec.parentCompositePodGroupName))

    def _composite_changed(self, change: Change[CompositePodGroup]) -> None:
        old, new = change
        if old is not None and new is not None and (old.metadata.uid, old.spec) == (new.metadata.uid, new.spec):
            return
        key = cast("CompositePodGroup", new or old).key
        for group in self._below(key):
            if isinstance(group, PodGroup):
                self._renew(self._pods.store.by_index(BY_LEAF, str(group.key)))
        self._render_above(key)

    def _renew(self, pods: Iterable[Pod]) -> None:
        for pod in sorted(filter(is_ours, pods), key=lambda each: each.key):
            self._place(pod, self._roots.get(pod.key))

    def _render_above(self, composite: ObjectKey) -> None:
        """The roots that a CompositePodGroup is part of."""
        for _ in range(gangs.DEEPEST):
            self._render(Root("composite", composite))
            found = self._composites.store.get(composite)
            if found is None or not found.spec.parentCompositePodGroupName:
                return
            composite = ObjectKey(composite.namespace, found.spec.parentCompositePodGroupName)

    # --- what is shown

    def _render(self, root: Root | None) -> None:
        """Shows the internal pod group of a root that has pods, as it is now; hides that of one that has none."""
        if root is None:
            return
        key = root.gang_key
        members = self._members.get(root)
        source = next(iter(members.values()), None) if root.kind == "pod" and members else self._group(root)
        if not members or source is None:
            if self._by_gang.pop(key, None) is not None:
                self.gangs.show(key, None)
            return
        self._by_gang[key] = root
        urgency = _urgency(members.values())
        if isinstance(source, Pod):
            wanted = gangs.gang_of_pod(source, urgency)
        elif isinstance(source, PodGroup):
            wanted = gangs.gang_of_group(source, urgency)
        else:
            wanted = gangs.gang_of_tree(source, self._children, urgency)
        _show_once(self._priorities, gangs.priority_class(urgency.priority))
        for part in (wanted.spec.topologyConstraint, *(each.topologyConstraint for each in wanted.spec.subGroups)):
            if part is not None:
                _show_once(self._topologies, gangs.topology(part.topology))
        shown = self.gangs.objects.get(key)
        if shown is not None and shown.metadata.uid == wanted.metadata.uid:
            if shown.spec == wanted.spec:
                return
            wanted = replace(shown, spec=wanted.spec)  # what was said of it stays
        self.gangs.show(key, wanted)

    def _group(self, root: Root) -> Group | None:
        if root.kind == "group":
            return self._groups.store.get(root.key)
        return self._composites.store.get(root.key) if root.kind == "composite" else None

    def _children(self, composite: ObjectKey) -> list[Group]:
        index = str(composite)
        return [*self._groups.store.by_index(BY_PARENT, index), *self._composites.store.by_index(BY_PARENT, index)]

    def _below(self, composite: ObjectKey | None, depth: int = gangs.DEEPEST) -> Iterator[Group]:
        if composite is None or not depth:
            return
        for child in self._children(composite):
            yield child
            if isinstance(child, CompositePodGroup):
                yield from self._below(child.key, depth - 1)


class ViewInformers(Informers):
    """The shared informers, with those of a view in place of the cluster's."""

    def __init__(self, client: Client, shared: Informers, view: View) -> None:
        super().__init__(client)
        self._shared, self._view = shared, view

    def of(self, kind: Kind[Any], **selection: Any) -> Informer[Any]:
        local = self._view.local.get(cast("type[KubeObject]", kind)) if isinstance(kind, type) else None
        return local if local is not None else self._shared.of(kind, **selection)

    @property
    def synced(self) -> bool:
        return self._shared.synced


class ViewTransport:
    """A `Transport` that keeps what is written into internal pod groups in the view."""

    def __init__(self, inner: Transport, view: View, written: Callable[[ObjectKey], None]) -> None:
        """`written` is called with the internal pod group whose status changed."""
        self._inner, self._view, self._written = inner, view, written
        resource = resource_of(Gang)
        self._prefix = f"/apis/{resource.group}/{resource.version}/namespaces/"
        self._plural = resource.plural
        self._bind_requests = f"/{resource_of(BindRequest).plural}"

    async def request(self, request: Request) -> Response:
        key = self._gang_key(request.path)
        if key is None:
            if request.method == "POST" and request.path.endswith(self._bind_requests):
                request = msgspec.structs.replace(request, body=_without_gang(request.body))
            return await self._inner.request(request)
        patch = msgspec.json.decode(request.body) if request.body else {}
        found = self._view.patch_gang(key, patch) if request.method == "PATCH" else self._view.gangs.objects.get(key)
        if found is None:
            gone = Status(status="Failure", code=404, reason="NotFound", message=f"the gang {key} is gone")
            return Response(404, _JSON, msgspec.json.encode(gone))
        if request.method == "PATCH":
            self._written(key)
        return Response(200, _JSON, msgspec.json.encode(found))

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _gang_key(self, path: str) -> ObjectKey | None:
        if not path.startswith(self._prefix):
            return None
        namespace, _, rest = path.removeprefix(self._prefix).partition("/")
        plural, _, name = rest.partition("/")
        return ObjectKey(namespace, name.removesuffix("/status")) if plural == self._plural and name else None


_JSON: Final = {"content-type": "application/json"}


def _without_gang(body: bytes) -> bytes:
    """A bind request that charges the pod in no pod group: the one that it was decided in is nobody else's to see."""
    request = msgspec.json.decode(body)
    annotations = request["metadata"].get("annotations", {})
    if CHARGED_ANNOTATION in annotations:
        charged = msgspec.json.decode(annotations.pop(CHARGED_ANNOTATION))
        charged.pop(POD_GROUP_ANNOTATION, None)
        if charged:
            annotations[CHARGED_ANNOTATION] = msgspec.json.encode(charged).decode()
    return msgspec.json.encode(request)


def _show_once(informer: LocalInformer[T], obj: T) -> None:
    if obj.key not in informer.objects:
        informer.show(obj.key, obj)


def _what_counts(pod: Pod) -> tuple[object, ...]:
    """What of a pod can change its gang."""
    return (pod.metadata.uid, pod.spec.priority, pod.spec.preemptionPolicy)


def _urgency(pods: Iterable[Pod]) -> Urgency:
    """That of the least important pod; all pods of a group should have the same."""
    specs = [pod.spec for pod in pods]
    return Urgency(min(spec.priority or 0 for spec in specs), all(spec.preemptionPolicy != "Never" for spec in specs))


def _leaf_index(pod: Pod) -> Iterator[str]:
    leaf = gangs.leaf_of(pod)
    if leaf is not None:
        yield str(leaf)


def _parent_index(group: Group) -> Iterator[str]:
    parent = group.spec.parentCompositePodGroupName
    if parent:
        yield str(ObjectKey(group.metadata.namespace, parent))
