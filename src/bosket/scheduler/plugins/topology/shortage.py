"""Shortage: what domains lack that can't hold a group of tasks: amounts for reasons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.reason import DomainShort, DomainsShort, Scarcity
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, ResourceIndex
from bosket.scheduler.plugins.topology.capacity import NOTHING_THERE, Demand, TreeCapacity

#: What amounts of resources are called, and how much one of them is; others go by their name, in their own unit.
SHOWN = {GPU: ("GPUs", 1.0), CPU: ("CPU cores", 1000.0), MEMORY: ("GiB of memory", float(2**30))}
#: Tolerance of float sums of GPU parts.
ROUNDING = 1e-9
#: The number of domains that a message names.
MOST_NAMED = 10


class Shortage:
    """Finds what domains lack for a group of tasks."""

    def __init__(self, session: Session, capacity: TreeCapacity, demand: Demand) -> None:
        self._session, self._capacity, self._demand = session, capacity, demand

    def of_level(self, number: int, shown: str, domains: NDArray[np.intp]) -> DomainsShort:
        """Of some domains of a level, which people call so; the best could take the most pods, or has the most free."""
        level, capacity = self._capacity.tree.levels[number], self._capacity
        fullness = capacity.fullness(self._demand, number)
        is_alike = self._demand.is_uniform and self._demand.is_alike
        pods = capacity.pods(self._demand, number) if is_alike else np.zeros(len(fullness))
        best = int(domains[np.lexsort((domains, fullness[domains], -pods[domains]))[0]])

        def short(domain: int) -> DomainShort:
            name = level.names[domain]
            if is_alike:
                return DomainShort(name, int(pods[domain]), self._demand.count)
            lacking = self._lacking(number, domain)
            return DomainShort(name, 0 if lacking else self._placeable(number, domain), self._demand.count, lacking)

        named = tuple(short(each) for each in domains[:MOST_NAMED].tolist())
        return DomainsShort(shown, named, len(domains) - len(named), short(best), self.scarcest(number, best))

    def scarcest(self, level: int, domain: int) -> Scarcity | None:
        """The resource of which a domain has least for what is asked for; None where nothing is."""
        if not self._demand.resources:
            return None

        def part(resource: ResourceIndex) -> float:
            free = self._free(resource, level, domain)
            return float(self._demand.total[resource]) / free if free > 0 else NOTHING_THERE

        resource = max(self._demand.resources, key=part)
        snapshot = self._session.snapshot
        there = self._capacity.tree.levels[level].rows.members(domain)
        name, unit = SHOWN.get(resource, (snapshot.resource_names[resource], 1.0))
        amounts = (
            max(self._free(resource, level, domain), 0.0),
            float(snapshot.nodes.allocatable[resource][there].sum()),
            float(self._demand.total[resource]),
        )
        free, total, asked = (f"{amount / unit:g}" for amount in amounts)
        return Scarcity(name, free, total, asked)

    def _lacking(self, level: int, domain: int) -> tuple[tuple[str, float, float], ...]:
        """Name, amount asked for, and amount free, of the resources of which there is too little."""
        names, demand = self._session.snapshot.resource_names, self._demand
        amounts = (
            (resource, float(demand.total[resource]), self._free(resource, level, domain))
            for resource in demand.resources
        )
        return tuple((names[resource], asked, free) for resource, asked, free in amounts if free < asked)

    def _placeable(self, level: int, domain: int) -> int:
        """How many pods of different sizes a domain takes when the largest come first, each on the fullest node."""
        rows = self._capacity.tree.levels[level].rows.members(domain)
        free = self._session.nodes.free()[:, rows]
        free[GPU] = self._session.nodes.free_gpus()[rows]
        placed = 0
        for pod_class in sorted(self._demand.classes, key=lambda each: each.charge, reverse=True):
            # As long as there were resources when the class was first seen.
            asked = pod_class.demand_by(self._session.jobs.largest_device_mib)
            needed = np.flatnonzero(asked > 0)
            slots = np.floor(free[needed] / asked[needed, None] + ROUNDING).min(axis=0)
            slots = np.where(self._session.views.of(pod_class).allowed[rows], np.maximum(slots, 0.0), 0.0)
            order = np.argsort(np.where(slots > 0, slots, np.inf), kind="stable")
            before = np.cumsum(slots[order]) - slots[order]
            taken = np.empty(len(order))
            taken[order] = np.clip(self._demand.classes[pod_class] - before, 0.0, slots[order])
            free[: len(asked)] -= asked[:, None] * taken
            placed += int(taken.sum())
        return placed

    def _free(self, resource: ResourceIndex, level: int, domain: int) -> float:
        return float(self._capacity.free(resource, level)[domain])
