"""Capacities of devices that several requests share: how much a request takes.

Kubernetes' rules: a capacity without a request takes the policy's default, or all of it; a request is rounded up to
what the policy allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from bosket.api.quantity import Quantity, from_milli, parse
from bosket.api.resource_k8s import CapacityRequirements, Device, DeviceCapacity

Taken = Mapping[str, Fraction]  #: by capacity
NOTHING: Taken = {}


def taken_by(request: CapacityRequirements | None, device: Device) -> Taken | None:
    """What a request takes of a device; None when the device can't serve it."""
    asked = request.requests if request is not None else {}
    if any(name not in device.capacity for name in asked):
        return None
    taken: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        amount = _rounded(asked.get(name), capacity)
        if amount is None or amount > parse(capacity.value):
            return None
        taken[name] = amount
    return taken


def written(taken: Taken) -> dict[str, Quantity]:
    """As an allocation has it."""
    return {name: from_milli(ceil(amount * 1000)) for name, amount in taken.items()}


def _rounded(asked: Quantity | None, capacity: DeviceCapacity) -> Fraction | None:
    policy = capacity.requestPolicy
    if asked is None:
        return parse(policy.default) if policy is not None and policy.default is not None else parse(capacity.value)
    amount = parse(asked)
    if policy is None:
        return amount
    if policy.validValues:
        return min((value for value in map(parse, policy.validValues) if value >= amount), default=None)
    bounds = policy.validRange
    if bounds is None:
        return amount
    if bounds.min is not None:
        least = parse(bounds.min)
        amount = max(amount, least)
        if bounds.step is not None and (step := parse(bounds.step)) > 0:
            amount = least + ceil((amount - least) / step) * step
    return None if bounds.max is not None and amount > parse(bounds.max) else amount
