"""Plugin dynamicresources: allocates devices for pods' claims, and follows placements and their rollback.

Devices come from ResourceSlices. Claims are pods' own or shared; extended resources that a node lacks and a device
class provides are claimed the same way. The allocation goes into the pod's bind request, and the binder writes it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bosket.api.kai import ExtendedResourceClaimAllocation, ResourceClaimAllocation
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.plugins.dynamicresources.filter import DeviceFilter
from bosket.scheduler.plugins.dynamicresources.fitness import ClaimFitness
from bosket.scheduler.plugins.dynamicresources.keeper import DeviceKeeper


class DynamicResources:
    """Does nothing unless some pod has claims. KAI's argument for the size of a cache has no effect here."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        if not session.snapshot.inventory.claimants:
            return
        ledger = DeviceKeeper(session)
        devices = DeviceFilter(session, ledger)
        session.extensions.placement_listeners.add(ledger)
        session.extensions.task_checks.add(ClaimFitness(session, ledger))
        session.extensions.node_filters.add(devices)
        session.extensions.free_now.add(devices.is_free_now)
        session.extensions.bind_details.add(_Details(ledger))


class _Details:
    """Adds to a bind which devices its claims are allocated."""

    def __init__(self, ledger: DeviceKeeper) -> None:
        self._ledger = ledger

    def __call__(self, bind: Bind, row: NodeRow) -> Bind:
        devices, needs = bind.task.devices, bind.task.pod_class.device_needs
        if devices is None or needs is None:
            return bind
        ledger = self._ledger.get()
        claims = tuple(
            ResourceClaimAllocation(name=ref.name, allocation=ledger.allocation(ref.key))
            for ref in devices.refs
            if ref.name
        )
        extended = None
        lacking = ledger.demands.lacking(needs, row)
        if lacking:
            extended = ExtendedResourceClaimAllocation(
                allocation=ledger.allocation(bind.task.uid),
                deviceRequests=ledger.demands.extended(lacking).spec.devices.requests,
                containerMappings=tuple(mapping for each in lacking for mapping in each.mappings),
            )
        return msgspec.structs.replace(bind, claims=claims, extended_claim=extended)
