"""Cluster: what the operator's controllers read of the cluster, and the few ways in which they change it.

One `Cluster` serves all controllers, so that each sees at once what the others wrote: answers of the API server are put
into the stores, and deleted objects count as terminating before the watch shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from bosket.api.autoscaling import HorizontalPodAutoscaler
from bosket.api.core import Pod, Secret, Service, ServiceAccount
from bosket.api.grove import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
)
from bosket.api.grove.naming import MANAGED_BY, MANAGED_BY_LABEL
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_of
from bosket.api.rbac import Role, RoleBinding
from bosket.api.resource_k8s import ResourceClaim
from bosket.grove.operator.problem import OperatorError
from bosket.grove.render.template import set_name_of
from bosket.grove.render.topology_levels import topology_name
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.kube.informer import Change, Informer
from bosket.runtime.service import Environment

T = TypeVar("T", bound=KubeObject)

BY_SET: Final = "grove/set"
BY_TOPOLOGY: Final = "grove/topology"
_MANAGED: Final = f"{MANAGED_BY_LABEL}={MANAGED_BY}"


def set_key(child: KubeObject) -> ObjectKey:
    """The set that an object says it is part of."""
    return ObjectKey(child.metadata.namespace, set_name_of(child))


class Cluster:
    """The watched objects, and writes to them."""

    def __init__(self, env: Environment) -> None:
        self.client = env.client
        self.clock = env.clock
        self._informers: dict[type[KubeObject], Informer[Any]] = {}
        self._going: set[str] = set()
        informers = env.informers
        self.sets = self._watch(PodCliqueSet, informers.of(PodCliqueSet))
        self.sets.add_index(BY_TOPOLOGY, lambda owner: (topology_name(owner),))
        self.bindings = self._watch(ClusterTopologyBinding, informers.of(ClusterTopologyBinding))

        def made_here(kind: type[T]) -> Informer[T]:
            """Of others' objects of a kind the operator need know nothing."""
            return informers.of(kind, labels=_MANAGED)

        self.cliques = self._children(PodClique, informers.of(PodClique))
        self.groups = self._children(PodCliqueScalingGroup, informers.of(PodCliqueScalingGroup))
        self.gangs = self._children(PodGang, informers.of(PodGang))
        self.pods = self._children(Pod, informers.of(Pod))  # all pods: backends watch them anyway
        self.services = self._children(Service, made_here(Service))
        self.accounts = self._children(ServiceAccount, made_here(ServiceAccount))
        self.roles = self._children(Role, made_here(Role))
        self.role_bindings = self._children(RoleBinding, made_here(RoleBinding))
        self.secrets = self._children(Secret, made_here(Secret))
        self.autoscalers = self._children(HorizontalPodAutoscaler, made_here(HorizontalPodAutoscaler))
        self.claims = self._children(ResourceClaim, made_here(ResourceClaim))

    def _children(self, kind: type[T], informer: Informer[T]) -> Informer[T]:
        self._watch(kind, informer)
        informer.add_index(BY_CONTROLLER, controller_index)
        informer.add_index(BY_SET, _set_index)
        informer.subscribe(self._observe)
        return informer

    def _watch(self, kind: type[T], informer: Informer[T]) -> Informer[T]:
        self._informers[kind] = informer
        return informer

    async def wait_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_synced()

    # --- reading

    def owned(self, informer: Informer[T], owner: KubeObject) -> list[T]:
        """The objects that `owner` controls, in order of names."""
        found = informer.store.by_index(BY_CONTROLLER, owner.metadata.uid)
        return sorted(found, key=lambda each: each.metadata.name)

    def part_of(self, informer: Informer[T], owner: PodCliqueSet) -> list[T]:
        """The objects of a set, by whichever controller, in order of names."""
        found = informer.store.by_index(BY_SET, str(owner.key))
        return sorted(found, key=lambda each: each.metadata.name)

    def set_of(self, child: KubeObject) -> PodCliqueSet | None:
        return self.sets.store.get(set_key(child))

    def binding_of(self, owner: PodCliqueSet) -> ClusterTopologyBinding | None:
        """The ClusterTopologyBinding of a set's constraints."""
        return self.bindings.store.get(ObjectKey("", topology_name(owner)))

    def is_terminating(self, obj: KubeObject) -> bool:
        """Whether the object is being deleted, by this process or another."""
        return obj.metadata.deletionTimestamp is not None or obj.metadata.uid in self._going

    # --- writing

    async def ensure(self, existing: T | None, render: Callable[[T | None], T]) -> T:
        """Creates the object, or changes it to what it should be."""
        wanted = render(existing)
        if existing is None:
            try:
                return self._put(await self.client.create(wanted))
            except AlreadyExists:
                # It lacks the operator's label, or the watch has not shown it yet.
                kind = type(wanted)
                existing = await self.client.get(kind, wanted.metadata.name, wanted.metadata.namespace)
                controller = controller_of(existing)
                if controller is not None and controller.uid != _controller_uid(wanted):
                    raise _taken(existing) from None
                wanted = render(existing)
        if wanted == existing:
            return existing
        return self._put(await self.client.modify(existing, wanted))

    async def create(self, obj: T) -> T:
        return self._put(await self.client.create(obj))

    async def make(self, wanted: T) -> T | None:
        """Creates an object; None while a former object of the same name is terminating."""
        try:
            return await self.create(wanted)
        except AlreadyExists:
            kind = type(wanted)
        try:
            existing = await self.client.get(kind, wanted.metadata.name, wanted.metadata.namespace)
        except NotFound:
            return None
        if self.is_terminating(existing):
            return None
        if _controller_uid(existing) == _controller_uid(wanted):
            return existing  # created by us; the watch hasn't shown it yet
        raise _taken(existing)

    async def write(self, before: T, after: T) -> T:
        """Writes the difference; returns the server's version."""
        return before if before == after else self._put(await self.client.modify(before, after))

    async def write_status(self, before: T, after: T) -> T:
        if before == after:
            return before
        return self._put(await self.client.modify(before, after, subresource="status"))

    async def delete(self, obj: KubeObject) -> bool:
        """Deletes this very object (by uid), once; returns whether this call did it."""
        if self.is_terminating(obj):
            return False
        meta = obj.metadata
        self._going.add(meta.uid)  # noted before the request, for other controllers that look meanwhile
        try:
            await self.client.delete(type(obj), meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return False  # gone already or replaced; the watch will show it
        except BaseException:
            self._going.discard(meta.uid)
            raise
        return True

    async def drop_finalizer(self, obj: KubeObject, finalizer: str) -> None:
        if finalizer not in obj.metadata.finalizers:
            return
        kept = tuple(each for each in obj.metadata.finalizers if each != finalizer)
        try:
            await self.client.modify(obj, replace(obj, metadata=replace(obj.metadata, finalizers=kept)))
        except NotFound:
            return

    async def add_finalizer(self, obj: T, finalizer: str) -> T:
        if finalizer in obj.metadata.finalizers:
            return obj
        meta = replace(obj.metadata, finalizers=(*obj.metadata.finalizers, finalizer))
        return await self.write(obj, replace(obj, metadata=meta))

    def _put(self, obj: T) -> T:
        self._informers[type(obj)].store.put(obj)
        return obj

    def _observe(self, change: Change[Any]) -> None:
        gone = change.old
        if gone is not None and (change.new is None or change.new.metadata.uid != gone.metadata.uid):
            self._going.discard(gone.metadata.uid)


def _set_index(child: KubeObject) -> Iterable[str]:
    return (str(set_key(child)),) if set_name_of(child) else ()


def by_name(objects: Iterable[T]) -> dict[str, T]:
    """Objects of one kind and namespace by their names."""
    return {each.metadata.name: each for each in objects}


def _taken(obj: KubeObject) -> OperatorError:
    kind, controller = type(obj).__name__, controller_of(obj)
    whose = f"belongs to {controller.kind} {controller.name}" if controller is not None else "is somebody else's"
    return OperatorError(f"ERR_CONFLICTING_{kind.upper()}", f"{kind} {obj.key} exists and {whose}")


def _controller_uid(obj: KubeObject) -> str:
    reference = controller_of(obj)
    return reference.uid if reference is not None else ""
