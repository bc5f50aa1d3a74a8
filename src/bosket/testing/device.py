"""Builders of device classes, slices and claims for tests: `device_slice("n1", device("gpu-0", model="A100"))`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bosket.api.core import PodResourceClaim, PodResourceClaimStatus
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.api.quantity import Quantity
from bosket.api.resource_k8s import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "gpu.example.com"
CLASS = "gpu"


def device(
    name: str, *, capacity: Mapping[str, Quantity] | None = None, fields: Any = None, **attributes: Any
) -> Device:
    """`attributes`: texts, numbers and truth values; `fields`: others of the device, by name."""
    capacities = {key: DeviceCapacity(value=value) for key, value in (capacity or {}).items()}
    described = {key: _attribute(value) for key, value in attributes.items()}
    return Device(**{"name": name, "attributes": described, "capacity": capacities, **(fields or {})})


def _attribute(value: str | bool | int) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_=value)
    return DeviceAttribute(int_=value) if isinstance(value, int) else DeviceAttribute(string=value)


def device_slice(
    node: str, *devices: Device, driver: str = DRIVER, pool: str = "", generation: int = 1, slices: int = 1, **spec: Any
) -> ResourceSlice:
    """Devices of a node, or of those that `spec` says where `node` is empty. The pool has the node's name."""
    name = pool or node
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{name}-{driver}-{generation}-{spec.pop('part', 0)}"),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(name=name, generation=generation, resourceSliceCount=slices),
            nodeName=node or None,
            devices=devices,
            **spec,
        ),
    )


def device_class(name: str = CLASS, *expressions: str, extended: str | None = None) -> DeviceClass:
    """Devices of which all expressions hold."""
    return DeviceClass(
        metadata=ObjectMeta(name=name),
        spec=DeviceClassSpec(selectors=selectors(*expressions), extendedResourceName=extended),
    )


def selectors(*expressions: str) -> tuple[DeviceSelector, ...]:
    """CEL, all of which must hold."""
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=each)) for each in expressions)


def device_request(name: str = "r", *expressions: str, of: str = CLASS, **asked: Any) -> DeviceRequest:
    """So many devices of a class; `asked` as in an ExactDeviceRequest."""
    asked = {"allocationMode": "ExactCount", "count": 1, **asked}
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(deviceClassName=of, selectors=selectors(*expressions), **asked)
    )


def claim_spec(*requests: DeviceRequest, constraints: tuple[DeviceConstraint, ...] = ()) -> ResourceClaimSpec:
    """These requests; one device, if there are none."""
    return ResourceClaimSpec(devices=DeviceClaim(requests=requests or (device_request(),), constraints=constraints))


def resource_claim(
    name: str,
    *requests: DeviceRequest,
    labels: Mapping[str, str] | None = None,
    devices: tuple[str, ...] = (),
    users: tuple[str, ...] = (),
    pool: str = "",
    owner: str = "",
    driver: str = DRIVER,
) -> ResourceClaim:
    """A claim; with `devices` of a `pool` where it is allocated. Users are pods, whose uid is their name."""
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver=driver, pool=pool, device=each) for each in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results)) if devices else None
    reserved = tuple(ResourceClaimConsumerReference(resource="pods", name=each, uid=each) for each in users)
    owners = (OwnerReference(apiVersion="v1", kind="Pod", name=owner, uid=owner, controller=True),) if owner else ()
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, labels=dict(labels or {}), ownerReferences=owners
        ),
        spec=claim_spec(*requests),
        status=ResourceClaimStatus(allocation=allocation, reservedFor=reserved),
    )


def named_claims(*names: str) -> tuple[PodResourceClaim, ...]:
    """For a pod's spec: claims that are called by their own names."""
    return tuple(PodResourceClaim(name=each, resourceClaimName=each) for each in names)


def made_claims(**made: str) -> tuple[tuple[PodResourceClaim, ...], tuple[PodResourceClaimStatus, ...]]:
    """For a pod's spec and its status: claims made from a template, by what the pod calls them."""
    spec = tuple(PodResourceClaim(name=each, resourceClaimTemplateName="template") for each in made)
    return spec, tuple(PodResourceClaimStatus(name=name, resourceClaimName=claim) for name, claim in made.items())
