"""An allocation as its claim's status has it: devices, where they can be used, and the configuration for drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

from bosket.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from bosket.api.resource_k8s import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
)
from bosket.scheduler.plugins.dynamicresources.allocator import Given
from bosket.scheduler.plugins.dynamicresources.capacity import written
from bosket.scheduler.plugins.dynamicresources.demand import Demand, Want


def allocation_of(
    demand: Demand, given: Sequence[Given], classes: Mapping[str, DeviceClass], *, node: str, owner: str
) -> AllocationResult:
    """`owner`: what tells this claim from all others, for the names of parts of devices."""
    results = tuple(_result(each, owner, index) for index, each in enumerate(given))
    config = _configuration(demand, given, classes)
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=config), nodeSelector=_nodes(given, node)
    )


def _result(given: Given, owner: str, index: int) -> DeviceRequestAllocationResult:
    want, offer, taken = given
    shared = offer.is_shared and not want.admin
    return DeviceRequestAllocationResult(
        request=want.request,
        driver=offer.id.driver,
        pool=offer.id.pool,
        device=offer.id.device,
        adminAccess=True if want.admin else None,
        tolerations=want.said_tolerations,
        shareID=str(uuid5(NAMESPACE_OID, f"{owner}/{index}/{'/'.join(offer.id)}")) if shared else None,
        consumedCapacity=written(taken),
    )


def _configuration(
    demand: Demand, given: Sequence[Given], classes: Mapping[str, DeviceClass]
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Of classes first: what the claim itself says comes later, and counts more."""
    served: dict[str, Want] = {}  # by request: how it is served
    for each in given:
        served.setdefault(each.want.parent, each.want)
    by_class: dict[str, list[str]] = {}
    for want in served.values():
        by_class.setdefault(want.device_class, []).append(want.request)
    found = []
    for name, requests in by_class.items():
        meant = () if len(requests) == len(served) else tuple(requests)
        for of_class in classes[name].spec.config:
            found.append(DeviceAllocationConfiguration(source="FromClass", requests=meant, opaque=of_class.opaque))
    for of_claim in demand.spec.devices.config:
        if any(want.is_named(of_claim.requests) for want in served.values()):
            everybody = all(want.is_named(of_claim.requests) for want in served.values())
            meant = () if everybody else of_claim.requests
            found.append(DeviceAllocationConfiguration(source="FromClaim", requests=meant, opaque=of_claim.opaque))
    return tuple(found)


def _nodes(given: Sequence[Given], node: str) -> NodeSelector | None:
    """Where all devices can be reached; None for everywhere."""
    fields: dict[NodeSelectorRequirement, None] = {}
    labels: dict[NodeSelectorRequirement, None] = {}
    for each in given:
        offer = each.offer
        terms = offer.selector.nodeSelectorTerms if offer.selector is not None else ()
        if offer.node or offer.device.bindsToNode or len(terms) > 1:
            here = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchFields=(here,)),))
        for term in terms:
            fields.update(dict.fromkeys(term.matchFields))
            labels.update(dict.fromkeys(term.matchExpressions))
    if not fields and not labels:
        return None
    term = NodeSelectorTerm(matchFields=tuple(fields), matchExpressions=tuple(labels))
    return NodeSelector(nodeSelectorTerms=(term,))
