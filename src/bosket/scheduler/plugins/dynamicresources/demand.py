"""Demand: a claim as searchable requests: alternatives in order, selectors compiled.

Built once per claim and cycle. An invalid claim or class is an `UnusableClaim` that names object and field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bosket.api.core import Toleration
from bosket.api.quantity import InvalidQuantity, parse
from bosket.api.resource_k8s import (
    CapacityRequirements,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from bosket.scheduler.plugins.dynamicresources.selector import Selectors, UnusableSelector, expressions

#: The most devices that one allocation may hold.
MOST_DEVICES = 32
ALL_DEVICES = -1


class UnusableClaim(ValueError):
    """A claim for which nothing can be allocated, whatever devices there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Want:
    """One way to serve a request."""

    request: str  #: as the allocation names it: the request, or the request and the alternative
    parent: str  #: the request
    device_class: str
    count: int  #: or ALL_DEVICES
    selectors: Selectors
    admin: bool
    tolerations: tuple[Toleration, ...]
    said_tolerations: tuple[DeviceToleration, ...]
    capacity: CapacityRequirements | None

    def is_named(self, requests: tuple[str, ...]) -> bool:
        """Whether a list of requests, empty for all, means this one."""
        return not requests or self.parent in requests or self.request in requests


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A claim: each of its requests as ways to serve it, the best first."""

    spec: ResourceClaimSpec
    requests: tuple[tuple[Want, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


def demand_of(spec: ResourceClaimSpec, classes: Mapping[str, DeviceClass], claim: str) -> Demand:
    """Raises UnusableClaim. `claim`: how the claim is called in messages."""
    requests = []
    least = 0
    for index, request in enumerate(spec.devices.requests):
        where = f"{claim}: spec.devices.requests[{index}]"
        wants = _wants(request, where, classes)
        least += min(max(want.count, 0) for want in wants)
        if least > MOST_DEVICES:
            raise UnusableClaim(f"{where} ({request.name}): {least} devices, a claim has {MOST_DEVICES} at most")
        requests.append(wants)
    for index, constraint in enumerate(spec.devices.constraints):
        if constraint.matchAttribute is None and constraint.distinctAttribute is None:
            raise UnusableClaim(f"{claim}: spec.devices.constraints[{index}] is of a kind that is not known here")
    return Demand(spec, tuple(requests), spec.devices.constraints)


def _wants(request: DeviceRequest, where: str, classes: Mapping[str, DeviceClass]) -> tuple[Want, ...]:
    if request.exactly is not None:
        return (_want(request.exactly, request.name, request.name, f"{where}.exactly", classes),)
    if not request.firstAvailable:
        raise UnusableClaim(f"{where} ({request.name}) has neither exactly nor firstAvailable")
    return tuple(
        _want(each, f"{request.name}/{each.name}", request.name, f"{where}.firstAvailable[{index}]", classes)
        for index, each in enumerate(request.firstAvailable)
    )


def _want(
    asked: ExactDeviceRequest | DeviceSubRequest,
    name: str,
    parent: str,
    where: str,
    classes: Mapping[str, DeviceClass],
) -> Want:
    class_name = asked.deviceClassName
    device_class = classes.get(class_name)
    if device_class is None:
        raise UnusableClaim(f'{where}.deviceClassName: DeviceClass "{class_name}" was not found')
    if asked.derivedAttributes:
        raise UnusableClaim(f"{where}.derivedAttributes are not known here")
    if asked.allocationMode not in ("", "ExactCount", "All"):
        raise UnusableClaim(f'{where}.allocationMode is "{asked.allocationMode}"; expected ExactCount or All')
    try:
        selectors = (
            *expressions(device_class.spec.selectors, f"DeviceClass {class_name}: spec.selectors"),
            *expressions(asked.selectors, f"{where}.selectors"),
        )
        for capacity, amount in (asked.capacity.requests if asked.capacity is not None else {}).items():
            try:
                parse(amount)
            except InvalidQuantity as error:
                raise UnusableClaim(f"{where}.capacity.requests[{capacity}]: {error}") from None
    except UnusableSelector as error:
        raise UnusableClaim(str(error)) from None
    return Want(
        request=name,
        parent=parent,
        device_class=class_name,
        count=ALL_DEVICES if asked.allocationMode == "All" else max(1, asked.count),
        selectors=selectors,
        admin=isinstance(asked, ExactDeviceRequest) and bool(asked.adminAccess),
        tolerations=tuple(
            Toleration(key=each.key, operator=each.operator, value=each.value, effect=each.effect)
            for each in asked.tolerations
        ),
        said_tolerations=asked.tolerations,
        capacity=asked.capacity,
    )
