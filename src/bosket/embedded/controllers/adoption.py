"""Adoption of orphans by the controller that selects them: replica sets here, pods in `pod_control`.

Who might be concerned by a pod, because it controls it or could take it in, is said here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from bosket.api.apps import DaemonSet, ReplicaSet, StatefulSet
from bosket.api.core import Pod
from bosket.api.object import KubeObject, LabelSelector, ObjectKey
from bosket.api.ownership import (
    BY_CONTROLLER,
    BY_NAMESPACE,
    controller_of,
    controller_reference,
    namespace_index,
    orphans_in,
)
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Informer
from bosket.kube.selector import label_selector

T = TypeVar("T", bound=KubeObject)
_Set = TypeVar("_Set", ReplicaSet, StatefulSet, DaemonSet)


async def take_in(client: Client, dependents: Informer[T], owner: KubeObject, selector: LabelSelector | None) -> None:
    """Make `owner` the controller of the orphans in its namespace that it selects."""
    wanted = label_selector(selector)
    orphans = [
        each
        for each in dependents.store.by_index(BY_CONTROLLER, orphans_in(owner.metadata.namespace))
        if wanted.matches(each.metadata.labels) and each.metadata.deletionTimestamp is None
    ]
    if orphans and await still_there(client, owner):
        for each in orphans:
            owners = (*each.metadata.ownerReferences, controller_reference(owner))
            after = replace(each, metadata=replace(each.metadata, ownerReferences=owners))
            dependents.store.put(await client.modify(each, after))


async def still_there(client: Client, owner: KubeObject) -> bool:
    """Asks the server: to adopt for an owner that is gone would doom what is adopted."""
    try:
        found = await client.get(type(owner), owner.metadata.name, owner.metadata.namespace)
    except NotFound:
        return False
    return found.metadata.uid == owner.metadata.uid and found.metadata.deletionTimestamp is None


def sets_by_pod(kind: str, sets: Informer[_Set]) -> Callable[[Pod], Iterable[ObjectKey]]:
    """From a pod to the set of this kind that controls it, or, for an orphan, to all that might take it in."""
    sets.add_index(BY_NAMESPACE, namespace_index)

    def sets_of(pod: Pod) -> Iterable[ObjectKey]:
        namespace = pod.metadata.namespace
        owner = controller_of(pod)
        if owner is not None:
            return (ObjectKey(namespace, owner.name),) if owner.kind == kind else ()
        found = sets.store.by_index(BY_NAMESPACE, namespace)
        return [each.key for each in found if label_selector(each.spec.selector).matches(pod.metadata.labels)]

    return sets_of
