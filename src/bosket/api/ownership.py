"""Which object controls which: owner references, the index that finds dependents, and the claiming of orphans.

An object has at most one controller. Controllers find their dependents by the controller's UID and never by name,
so that an object that was deleted and made again does not inherit what its predecessor had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bosket.api.object import KubeObject, OwnerReference
from bosket.api.table import resource_of

#: Name of the informer index that `controller_index` fills.
BY_CONTROLLER: Final = "controller"
#: Name of the informer index that `namespace_index` fills.
BY_NAMESPACE: Final = "namespace"


def controller_reference(owner: KubeObject) -> OwnerReference:
    """What a dependent carries to say that `owner` controls it."""
    resource = resource_of(type(owner))
    return OwnerReference(
        apiVersion=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def controller_of(dependent: KubeObject) -> OwnerReference | None:
    """The reference to the object's controller, if it has one."""
    return next((reference for reference in dependent.metadata.ownerReferences if reference.controller), None)


def controller_index(dependent: KubeObject) -> Iterable[str]:
    """Index values of an object: its controller's UID, or where to look for it if it has none."""
    reference = controller_of(dependent)
    return (reference.uid,) if reference is not None else (orphans_in(dependent.metadata.namespace),)


def namespace_index(obj: KubeObject) -> Iterable[str]:
    """Index value of an object: its namespace."""
    return (obj.metadata.namespace,)


def orphans_in(namespace: str) -> str:
    """The index value that all objects of a namespace without a controller share; no UID looks like it."""
    return f"orphans in {namespace}"
