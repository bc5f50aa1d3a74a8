"""Orphans are taken in by who selects them: replica sets here, by deployments; pods in `pod_control`."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from bosket.api.object import KubeObject, LabelSelector
from bosket.api.ownership import BY_CONTROLLER, controller_reference, orphans_in
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Informer
from bosket.kube.selector import label_selector

T = TypeVar("T", bound=KubeObject)


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
