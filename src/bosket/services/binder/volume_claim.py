"""Pure part of `VolumeBinding`: checks of claims and volumes, and their changed versions."""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectMeta
from bosket.kube.volume import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    Demand,
    InvalidClaim,
    demand_of,
    is_bound,
    is_made_for,
    reaches,
    reference_to,
    suits,
)
from bosket.services.binder.plugin import Refused


class VolumesRefused(Refused):
    """The pod can't have its volumes on the node."""


def check_claim(claim: PersistentVolumeClaim, pod: Pod, *, own: bool) -> None:
    """Repeats the scheduler's checks; the claim may have changed since."""
    if claim.metadata.deletionTimestamp is not None:
        raise VolumesRefused(f"persistentvolumeclaim {claim.key} is being deleted")
    if claim.status.phase == "Lost":
        raise VolumesRefused(f"persistentvolumeclaim {claim.key} has lost its volume {claim.spec.volumeName}")
    if own and not is_made_for(claim, pod):
        raise VolumesRefused(f"persistentvolumeclaim {claim.key} was not made for pod {pod.key}")
    if not is_bound(claim):
        understood(claim)


def understood(claim: PersistentVolumeClaim) -> Demand:
    """What the claim asks for."""
    try:
        return demand_of(claim)
    except InvalidClaim as error:
        raise VolumesRefused(f"persistentvolumeclaim {claim.key}: {error}") from error


def check_volume(volume: PersistentVolume, claim: PersistentVolumeClaim, node: Node) -> None:
    """Whether a volume is the right one for a claim of a pod on the node."""
    name = volume.metadata.name
    if not suits(volume, understood(claim)):
        raise VolumesRefused(f"persistentvolume {name} is not what persistentvolumeclaim {claim.key} asks for")
    if not reaches(node, volume):
        raise VolumesRefused(f"persistentvolume {name} can't be reached from node {node.metadata.name}")


def _with_annotation(meta: ObjectMeta, annotation: str, value: str | None) -> ObjectMeta:
    kept = {name: text for name, text in meta.annotations.items() if name != annotation}
    return replace(meta, annotations=kept if value is None else {**kept, annotation: value})


def annotated(claim: PersistentVolumeClaim, annotation: str, value: str | None) -> PersistentVolumeClaim:
    """The claim with the annotation, or without it."""
    return replace(claim, metadata=_with_annotation(claim.metadata, annotation, value))


def promised_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume as Kubernetes' scheduler leaves it to the volume controller."""
    meta = _with_annotation(volume.metadata, BOUND_BY_CONTROLLER_ANNOTATION, "yes")
    return replace(volume, metadata=meta, spec=replace(volume.spec, claimRef=reference_to(claim)))


def was_chosen_here(volume: PersistentVolume) -> bool:
    """Whether a program, not a user, chose the volume for the claim."""
    return BOUND_BY_CONTROLLER_ANNOTATION in volume.metadata.annotations


def promised_to_nobody(volume: PersistentVolume) -> PersistentVolume:
    """Reverts `promised_to`."""
    meta = _with_annotation(volume.metadata, BOUND_BY_CONTROLLER_ANNOTATION, None)
    return replace(volume, metadata=meta, spec=replace(volume.spec, claimRef=None))
