"""Claims and volumes by Kubernetes' rules: which volume suits which claim, and when one has the other.

Pure functions on objects. The scheduler chooses volumes by them, the binder carries the choice out, and the embedded
cluster's controller binds claims that wait for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from bosket.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import CHOSEN_VOLUMES_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity, Quantity, to_int
from bosket.api.storage import StorageClass
from bosket.kube.node_selector import node_test
from bosket.kube.selector import EVERYTHING, InvalidSelector, Selector, label_selector

#: On a claim: it has its volume for good.
BIND_COMPLETED_ANNOTATION: Final = "pv.kubernetes.io/bind-completed"
#: On a claim or a volume: a controller chose the other one, not a user.
BOUND_BY_CONTROLLER_ANNOTATION: Final = "pv.kubernetes.io/bound-by-controller"
#: On a claim: make a volume that this node reaches.
SELECTED_NODE_ANNOTATION: Final = "volume.kubernetes.io/selected-node"
#: On a volume: who made it.
PROVISIONED_BY_ANNOTATION: Final = "pv.kubernetes.io/provisioned-by"
OLD_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
WAIT: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
FILESYSTEM: Final = "Filesystem"
#: Access modes that let pods on several nodes use a volume.
_MANY_NODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class InvalidClaim(ValueError):
    """A claim that can't be satisfied because it can't be understood; says which field."""


class Demand(NamedTuple):
    """What a volume must be to satisfy a claim."""

    storage_class: str
    size: int  #: in bytes
    access_modes: frozenset[str]
    volume_mode: str
    labels: Selector
    attributes_class: str = ""


def class_of(claim: PersistentVolumeClaim) -> str:
    """The name of the claim's storage class; empty for none."""
    named = claim.metadata.annotations.get(OLD_CLASS_ANNOTATION)
    return named if named is not None else claim.spec.storageClassName or ""


def class_of_volume(volume: PersistentVolume) -> str:
    """The name of the volume's storage class; empty for none."""
    named = volume.metadata.annotations.get(OLD_CLASS_ANNOTATION)
    return named if named is not None else volume.spec.storageClassName


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume for good."""
    return bool(claim.spec.volumeName) and BIND_COMPLETED_ANNOTATION in claim.metadata.annotations


def waits_for_pod(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    """Whether the claim is bound once its pod has a node. One that names its volume is bound before."""
    return not claim.spec.volumeName and storage_class is not None and storage_class.volumeBindingMode == WAIT


def is_for_one_node(claim: PersistentVolumeClaim) -> bool:
    """Whether all pods that use the claim must be on the same node."""
    return _MANY_NODES.isdisjoint(claim.spec.accessModes)


def can_be_made(storage_class: StorageClass) -> bool:
    """Whether somebody makes volumes of this class."""
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def claims_of(pod: Pod) -> Iterator[tuple[ObjectKey, bool]]:
    """The pod's claims, and whether each is made for this pod alone."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield ObjectKey(namespace, volume.persistentVolumeClaim.claimName), False
        elif volume.ephemeral is not None:
            yield ObjectKey(namespace, f"{name}-{volume.name}"), True


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a claim with the name of one of the pod's ephemeral volumes is really the pod's."""
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.ownerReferences)


def demand_of(claim: PersistentVolumeClaim) -> Demand:
    """What the claim asks for; raises `InvalidClaim`."""
    spec = claim.spec
    try:
        labels = EVERYTHING if spec.selector is None else label_selector(spec.selector)
    except InvalidSelector as error:
        raise InvalidClaim(f"spec.selector: {error}") from error
    try:
        size = _bytes(spec.resources.requests.get("storage"))
    except InvalidQuantity as error:
        raise InvalidClaim(f"spec.resources.requests.storage: {error}") from error
    return Demand(
        class_of(claim),
        size,
        frozenset(spec.accessModes),
        spec.volumeMode or FILESYSTEM,
        labels,
        spec.volumeAttributesClassName or "",
    )


def size_of(volume: PersistentVolume) -> int:
    """In bytes; raises InvalidQuantity."""
    return _bytes(volume.spec.capacity.get("storage"))


def suits(volume: PersistentVolume, demand: Demand) -> bool:
    """Whether the volume satisfies the claim, bound or not."""
    spec = volume.spec
    try:
        large_enough = size_of(volume) >= demand.size
    except InvalidQuantity:
        return False
    return (
        large_enough
        and volume.metadata.deletionTimestamp is None
        and class_of_volume(volume) == demand.storage_class
        and (spec.volumeMode or FILESYSTEM) == demand.volume_mode
        and (spec.volumeAttributesClassName or "") == demand.attributes_class
        and demand.access_modes <= set(spec.accessModes)
        and demand.labels.matches(volume.metadata.labels)
    )


def is_free(volume: PersistentVolume) -> bool:
    """Whether nobody has the volume, or is promised it."""
    return volume.status.phase == "Available" and volume.spec.claimRef is None


def is_promised_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names the claim as the one that it is for. Before they are bound the uid may be missing."""
    reference = volume.spec.claimRef
    return reference is not None and refers_to(reference, claim)


def refers_to(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    """Whether it is this claim that is meant, as far as the reference says."""
    meta = claim.metadata
    named = (reference.namespace, reference.name) == (meta.namespace, meta.name)
    return named and reference.uid in ("", meta.uid)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """What a volume says of the claim that it is for."""
    meta = claim.metadata
    return ObjectReference(
        apiVersion="v1",
        kind="PersistentVolumeClaim",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


def reaches(node: Node, volume: PersistentVolume) -> bool:
    """Whether a volume can be used on a node."""
    affinity = volume.spec.nodeAffinity
    return affinity is None or affinity.required is None or node_test(affinity.required)(node)


def best_volume(
    claim: PersistentVolumeClaim, demand: Demand, volumes: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """The one that is promised to the claim, else the smallest that is free; the first by name of several."""
    suitable = [each for each in volumes if suits(each, demand)]
    promised = [each for each in suitable if is_promised_to(each, claim)]
    free = promised or [each for each in suitable if is_free(each)]
    return min(free, key=lambda each: (size_of(each), each.metadata.name), default=None)


def choice_annotations(chosen: Mapping[str, str]) -> dict[str, str]:
    """How a bind request says which volume each claim, by name, is to have; "" where one is made."""
    return {CHOSEN_VOLUMES_ANNOTATION: msgspec.json.encode(chosen, order="sorted").decode()} if chosen else {}


def chosen_volumes(request: BindRequest) -> Mapping[str, str]:
    """By claim: the volume that the scheduler chose for it, "" where one is to be made. What can't be read, or isn't
    there because another scheduler wrote the request, is no choice."""
    text = request.metadata.annotations.get(CHOSEN_VOLUMES_ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}


def _bytes(quantity: Quantity | None) -> int:
    return to_int(quantity) if quantity is not None else 0
