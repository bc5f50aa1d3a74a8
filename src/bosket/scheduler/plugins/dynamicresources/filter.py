"""DeviceFilter: which nodes can serve the claims of a class."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bosket.scheduler.framework.class_view import short_of
from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.device import DeviceNeeds
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.dynamicresources.keeper import DeviceKeeper
from bosket.scheduler.plugins.dynamicresources.ledger import DeviceLedger


class DeviceFilter(NodeFilter):
    """Objects to nodes whose devices don't serve all claims."""

    def __init__(self, session: Session, ledger: DeviceKeeper) -> None:
        self._session, self._ledger = session, ledger

    def concerns(self, pod_class: PodClass) -> bool:
        return pod_class.device_needs is not None

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        needs = pod_class.device_needs
        return self._ledger.get().global_inputs(needs) if needs is not None else None

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        every = np.arange(len(self._session.snapshot.nodes))[rows].tolist()
        return np.array([self.code(pod_class, row) for row in every], dtype=np.int32)

    def code(self, pod_class: PodClass, row: NodeRow) -> int:
        needs = pod_class.device_needs
        if needs is None:
            return 0
        ledger = self._ledger.get()
        objection = ledger.fit(needs, row).refusal or self._shortage(ledger, pod_class, needs, row)
        return self._session.reason_book.number(objection) if objection else 0

    def is_free_now(self, pod_class: PodClass, row: NodeRow) -> bool:
        """Whether pods of the class could get their devices on the node now, without waiting."""
        needs = pod_class.device_needs
        if needs is None:
            return True
        ledger = self._ledger.get()
        if ledger.fit(needs, row).waits:
            return False
        idle = self._session.nodes.idle_at
        if needs.extended and any(
            idle[resource, row] < amount for resource, amount in _own_amounts(ledger, needs, row)
        ):
            return False
        more = _more_gpus(ledger, needs, row)
        return not more or idle[GPU, row] - pod_class.amounts[GPU] >= more

    def _shortage(self, ledger: DeviceLedger, pod_class: PodClass, needs: DeviceNeeds, row: NodeRow) -> str:
        """What there is too little of, counted as nodes count."""
        names = self._session.snapshot.resource_names
        idle, releasing = self._session.nodes.idle_at, self._session.nodes.releasing_at
        for resource, amount in _own_amounts(ledger, needs, row) if needs.extended else ():
            if idle[resource, row] + releasing[resource, row] < amount:
                return short_of(names[resource])
        more = _more_gpus(ledger, needs, row)
        free = idle[GPU, row] + releasing[GPU, row] - pod_class.amounts[GPU]
        return short_of(names[GPU]) if more and free < more else ""


def _own_amounts(ledger: DeviceLedger, needs: DeviceNeeds, row: NodeRow) -> list[tuple[int, int]]:
    """Of extended resources that the node has itself: what is asked for, by resource index."""
    lacking = ledger.demands.lacking(needs, row)
    return [
        (each.resource_index, each.amount)
        for each in needs.extended
        if each not in lacking and each.resource_index != GPU
    ]


def _more_gpus(ledger: DeviceLedger, needs: DeviceNeeds, row: NodeRow) -> int:
    if not needs.gpus or not ledger.gpus.has_gpus(row):
        return 0
    allocations = [ledger.allocation(each.key) for each in needs.claims if each.key is not None]
    if not any(allocations):
        return needs.gpus
    return ledger.gpus.more(needs.gpus, ledger.gpus.counted(needs.gpus, allocations, row), row)
