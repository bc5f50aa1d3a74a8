"""Reaches: which devices each node reaches, and which verdicts a changed allocation invalidates."""

from __future__ import annotations

from functools import cached_property

from bosket.api.resource_k8s import AllocationResult
from bosket.kube.node_selector import NodeTest, node_test
from bosket.scheduler.model.device import DeviceId, Offer, Pool, PoolId
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins.dynamicresources.allocator import Reach


class Reaches:
    """By node: pools of its own, then those that others reach too, in order of drivers and names."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._table, self._inventory = snapshot.nodes, snapshot.inventory
        self._of: dict[int, tuple[Reach, ...]] = {}
        self._tests: dict[int, NodeTest] = {}
        self._offers: dict[PoolId, dict[str, Offer]] = {}
        #: (node,), changes with the devices that the node alone reaches
        self.versions: list[int] = [0] * len(self._table)
        self.version = 0  #: changes with devices that several nodes reach

    @cached_property
    def _homes(self) -> dict[PoolId, int]:
        """Pools that one node alone reaches, and its row."""
        rows, local = self._table.rows, self._inventory.local
        return {pool: rows.get(node, -1) for node, pools in local.items() for pool in pools}

    @cached_property
    def _common(self) -> tuple[Pool, ...]:
        pools = self._inventory.pools
        return tuple(pools[key] for key in sorted(pools.keys() - self._homes.keys()))

    def of(self, row: NodeRow) -> tuple[Reach, ...]:
        found = self._of.get(row)
        if found is None:
            found = self._of[row] = self._look(row)
        return found

    def is_own(self, pool: PoolId, row: NodeRow) -> bool:
        """Whether the node alone reaches the pool."""
        return self._homes.get(pool) == row

    def offer(self, device: DeviceId) -> Offer | None:
        key = PoolId(device.driver, device.pool)
        offers = self._offers.get(key)
        if offers is None:
            pool = self._inventory.pools.get(key)
            offers = self._offers[key] = {each.id.device: each for each in pool.offers} if pool is not None else {}
        return offers.get(device.device)

    def changed(self, allocation: AllocationResult) -> None:
        """Devices of the allocation were taken, or given back."""
        for each in allocation.devices.results:
            row = self._homes.get(PoolId(each.driver, each.pool))
            if row is None:
                self.version += 1
            elif row >= 0:
                self.versions[row] += 1

    def _look(self, row: NodeRow) -> tuple[Reach, ...]:
        node = self._table.nodes[row]
        pools = self._inventory.pools
        found = []
        own = sorted(self._inventory.local.get(node.metadata.name, ()))
        for pool in [*(pools[key] for key in own), *self._common]:
            offers = tuple((index, offer) for index, offer in enumerate(pool.offers) if self._reaches(row, offer))
            if offers:
                found.append(Reach(pool, offers))
        return tuple(found)

    def _reaches(self, row: NodeRow, offer: Offer) -> bool:
        node = self._table.nodes[row]
        if offer.everywhere:
            return True
        if offer.selector is not None:
            test = self._tests.get(id(offer.selector))
            if test is None:
                test = self._tests[id(offer.selector)] = node_test(offer.selector)
            return test(node)
        return bool(offer.node) and offer.node == node.metadata.name
