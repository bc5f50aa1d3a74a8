"""What changed since the last snapshot, and what a change invalidates in other parts of the live state."""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.object import ObjectKey
from bosket.scheduler.state.devices.numa_zones import NumaTopologies
from bosket.scheduler.state.own.preemption_history import PreemptionHistory


class Dirty:
    """Pods and jobs that the next snapshot must recompute. Every part of the live state adds to it.

    The sets are never replaced, so that a part can hold a reference to one of them.
    """

    def __init__(self) -> None:
        self.pods: set[ObjectKey] = set()  #: pods to be read again, because an object that they refer to changed
        self.jobs: set[ObjectKey] = set()  #: pod groups whose jobs must be rebuilt
        self.other = True  #: whether anything else changed that a snapshot shows and no part tracks


class Invalidation:
    """What a change of an object invalidates in other parts. Each method gets whether anything relevant changed."""

    def __init__(
        self, dirty: Dirty, preemptions: PreemptionHistory, zones: NumaTopologies, pods: Iterable[ObjectKey]
    ) -> None:
        """`pods`: a live view of the keys of all pods."""
        self._dirty, self._preemptions, self._zones, self._pods = dirty, preemptions, zones, pods
        self._had_zones = zones.any

    def by_queue(self, changed: bool) -> None:
        if changed:
            self._preemptions.forget_all()

    def by_topology(self, changed: bool) -> None:
        if changed:
            self._preemptions.forget_all()
            self._dirty.other = True

    def by_zones(self, changed: bool) -> None:
        """NUMA needs are part of pod classes only while some node reports zones: the first and last such node make all
        tasks dirty."""
        if changed:
            self._dirty.other = True
            if self._had_zones != self._zones.any:
                self._had_zones = self._zones.any
                self._dirty.pods.update(self._pods)

    def by_device_class(self, changed: bool) -> None:
        """Any pod may request an extended resource that another DeviceClass stands for now."""
        if changed:
            self._dirty.pods.update(self._pods)
