"""What a fresh cluster needs before Bosket's services run on it, as KAI's chart installs it.

The embedded cluster calls `bootstrap` when it starts, the end-to-end tests for a real control plane, and
`bosket crds --install` for any other. Doing it again brings the definitions up to date and leaves queues and priority
classes, which belong to the cluster's administrators, as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Literal, NamedTuple

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.condition import has_condition
from bosket.api.core import Namespace, ServiceAccount
from bosket.api.crd import crd_manifests
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.keys import (
    DEFAULT_PARENT_QUEUE,
    DEFAULT_QUEUE,
    PRIORITY_CLASSES,
    RESERVATION_NAMESPACE,
    SCALE_ADJUST_NAMESPACE,
    SCALING_POD_SERVICE_ACCOUNT,
    SYSTEM_NAMESPACE,
)
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.install.account import account_of
from bosket.install.right import read_rights
from bosket.install.role import DEFAULT_NAMESPACES, role_objects
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists


class Installed(NamedTuple):
    """An object, and what was done about it."""

    kind: str
    name: str
    outcome: Literal["created", "updated", "left as it is"]


async def bootstrap(client: Client) -> list[Installed]:
    """Installs KAI's and Grove's definitions, priority classes, default queues, and what reservation and
    scaling pods need.

    With the namespaces for all that. Returns when all of it can be used.
    """
    manifests = crd_manifests()
    definitions = await asyncio.gather(*(_install_definition(client, manifest) for manifest in manifests))
    await _wait_established(client, {each.name for each in definitions})
    namespaces = [await create_if_absent(client, each) for each in _NAMESPACES]
    objects = (*_priority_classes(), *_queues(), *_reservation_rights(), _SCALING_POD_ACCOUNT)
    return [*definitions, *namespaces, *await asyncio.gather(*(create_if_absent(client, each) for each in objects))]


async def _install_definition(client: Client, manifest: dict[str, Any]) -> Installed:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    try:
        await client.create(manifest)
    except AlreadyExists:
        await client.patch(CustomResourceDefinition, name, {"spec": manifest["spec"]})
        return Installed(kind, name, "updated")
    return Installed(kind, name, "created")


async def _wait_established(client: Client, names: set[str]) -> None:
    """Until then the server answers 404 for the kinds that the definitions describe."""
    while True:
        page = await client.list(CustomResourceDefinition)
        waiting = names - _established(page.items)
        if not waiting:
            return
        changes = client.watch(CustomResourceDefinition, resource_version=page.resource_version)
        async with aclosing(changes):
            async for change in changes:
                if change.object is not None:
                    waiting -= _established([change.object])
                if not waiting:
                    return


def _established(definitions: Iterable[CustomResourceDefinition]) -> set[str]:
    return {
        definition.metadata.name
        for definition in definitions
        if definition.status is not None and has_condition(definition.status.conditions or (), "Established")
    }


async def create_if_absent(client: Client, obj: KubeObject) -> Installed:
    """Create an object; one of that name that is there already stays as it is."""
    kind, name = type(obj).__name__, obj.metadata.name
    try:
        await client.create(obj)
    except AlreadyExists:
        return Installed(kind, name, "left as it is")
    return Installed(kind, name, "created")


_NAMESPACES = [
    Namespace(metadata=ObjectMeta(name=name))
    for name in (SYSTEM_NAMESPACE, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE)
]

#: Without any rights.
_SCALING_POD_ACCOUNT = ServiceAccount(
    metadata=ObjectMeta(name=SCALING_POD_SERVICE_ACCOUNT, namespace=SCALE_ADJUST_NAMESPACE)
)


def _reservation_rights() -> list[KubeObject]:
    """Who reservation pods are, and that they may say on themselves which GPU they hold."""
    account = account_of("reservation")
    assert account is not None
    meta = ObjectMeta(name=account.name, namespace=RESERVATION_NAMESPACE)
    return [ServiceAccount(metadata=meta), *role_objects(account, read_rights()[account.name], DEFAULT_NAMESPACES)]


def _priority_classes() -> list[PriorityClass]:
    return [
        PriorityClass(metadata=ObjectMeta(name=name), value=value, description=f"Bosket: {name} workloads")
        for name, value in PRIORITY_CLASSES.items()
    ]


def _queues() -> list[Queue]:
    """Owed nothing, limited by nothing: whoever names no queue shares what others leave."""
    share = QueueResource(quota=0, overQuotaWeight=1, limit=-1)
    resources = QueueResources(gpu=share, cpu=share, memory=share)
    return [
        Queue(metadata=ObjectMeta(name=DEFAULT_PARENT_QUEUE), spec=QueueSpec(resources=resources)),
        Queue(
            metadata=ObjectMeta(name=DEFAULT_QUEUE),
            spec=QueueSpec(parentQueue=DEFAULT_PARENT_QUEUE, resources=resources),
        ),
    ]
