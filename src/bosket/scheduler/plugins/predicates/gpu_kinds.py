"""GpuKinds: which nodes have GPUs of the requested kind: whole, shared, or partitioned."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bosket.scheduler.framework.class_view import POD_NUMBER
from bosket.scheduler.framework.devices import choose_devices
from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.mig_node import MigStrategy
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import FIXED_NAMES, GPU, PODS, amounts_of
from bosket.scheduler.model.task import Mig, PodClass

LEGACY = "node(s) don't take legacy MIG pods"
NOT_PARTITIONED = "MIG job cannot be scheduled on non-MIG node"
BESIDE_LEGACY = "MIG job cannot be scheduled on node with legacy MIG jobs"
WHOLE_ONLY = "only whole gpu jobs can run on a node with MigStrategy='single'"
INSTANCES_ONLY = "non MIG jobs cant run on a node with MigStrategy='mixed'"
CLAIMED_AS_A_WHOLE = "fractional/shared GPU pods are not yet supported on DRA-only nodes"
CLAIMED_ONLY = "node(s) have GPUs for resource claims only"
MEMORY_UNKNOWN = "node(s) didn't say how much memory their GPUs have"


class GpuKinds(NodeFilter):
    """Compares what a class asks for with what a node is."""

    static = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def concerns(self, pod_class: PodClass) -> bool:
        return pod_class.wants_gpu

    def cache_key(self, pod_class: PodClass) -> Hashable:
        share = pod_class.share
        asks = pod_class.amounts[GPU] > 0 and pod_class.device_needs is None
        return pod_class.mig, share is not None, share is not None and share.memory_mib > 0, asks

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        snapshot, book = self._session.snapshot, self._session.reason_book
        table = snapshot.nodes
        if pod_class.mig is Mig.LEGACY:
            return np.full(len(table), book.number(LEGACY), dtype=np.int32)[rows]
        strategies = snapshot.mig_strategies()
        codes: ReasonCodes = np.zeros(len(table), dtype=np.int32)
        if pod_class.mig is Mig.PROFILE:
            codes[strategies == MigStrategy.SINGLE] = book.number(WHOLE_ONLY)
            codes[list(table.devices.legacy_mig)] = book.number(BESIDE_LEGACY)
            codes[strategies == MigStrategy.WHOLE] = book.number(NOT_PARTITIONED)
        else:
            codes[strategies == MigStrategy.MIXED] = book.number(INSTANCES_ONLY)
            if pod_class.share is not None:
                if pod_class.share.memory_mib:
                    codes[~table.devices.known & (codes == 0)] = book.number(MEMORY_UNKNOWN)
                codes[strategies == MigStrategy.SINGLE] = book.number(WHOLE_ONLY)
        if snapshot.inventory.local:
            self._look_at_devices(pod_class, codes)
        return codes[rows]

    def _look_at_devices(self, pod_class: PodClass, codes: ReasonCodes) -> None:
        """GPUs that drivers offer are for claims. KAI, which counts them like others, gives them to any whole-GPU pod;
        kubelets then refuse it."""
        snapshot, book = self._session.snapshot, self._session.reason_book
        for node in snapshot.inventory.local:
            row = snapshot.nodes.rows.get(node)
            if row is None or not snapshot.inventory.has_gpus(node):
                continue
            if pod_class.share is not None:
                codes[row] = book.number(CLAIMED_AS_A_WHOLE)
            elif pod_class.amounts[GPU] > 0 and pod_class.device_needs is None:
                own = amounts_of(snapshot.nodes.nodes[row].status.allocatable).get(FIXED_NAMES[GPU], 0)
                if not own:
                    codes[row] = book.number(CLAIMED_ONLY)


class RoomForReservation(NodeFilter):
    """A shared GPU that is opened takes another pod slot of the node, for its reservation pod.

    As in KAI an existing group counts, too, unless its name is a number: KAI recognizes new groups by their names.
    """

    only_takes = True  # of a node where it objects, the next pod takes the last place

    def __init__(self, session: Session) -> None:
        self._session = session

    def concerns(self, pod_class: PodClass) -> bool:
        return pod_class.share is not None

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.share

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        nodes = self._session.nodes
        few = nodes.idle[PODS, rows] + nodes.releasing[PODS, rows] < 2
        codes: ReasonCodes = np.zeros(len(few), dtype=np.int32)
        if few.any():
            numbers = np.arange(len(nodes.table))[rows]
            for position in np.flatnonzero(few).tolist():
                if self._needs_two(pod_class, NodeRow(int(numbers[position]))):
                    codes[position] = self._session.reason_book.number(POD_NUMBER)
        return codes

    def code(self, pod_class: PodClass, row: NodeRow) -> int:
        nodes = self._session.nodes
        if nodes.idle_at[PODS, row] + nodes.releasing_at[PODS, row] >= 2 or not self._needs_two(pod_class, row):
            return 0
        return self._session.reason_book.number(POD_NUMBER)

    def _needs_two(self, pod_class: PodClass, row: NodeRow) -> bool:
        choice = choose_devices(self._session, pod_class, row)
        return choice is None or choice.opened > 0 or not all(name.isdigit() for name in choice.groups)
