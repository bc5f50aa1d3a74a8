"""What a change of one kind of object means for other parts of the live state.

Each is told, by an intake, whether something changed that anybody rests on.
"""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.object import ObjectKey
from bosket.scheduler.state.devices.numa_zones import NumaTopologies
from bosket.scheduler.state.own.preemption_history import PreemptionHistory
from bosket.scheduler.state.touched import Touched


class Consequences:
    """Marks what is to be looked at again, and forgets what rests on another situation."""

    def __init__(
        self, touched: Touched, preemptions: PreemptionHistory, zones: NumaTopologies, pods: Iterable[ObjectKey]
    ) -> None:
        """`pods`: the keys of all that there are, as of whenever they are gone through."""
        self._touched, self._preemptions, self._zones, self._pods = touched, preemptions, zones, pods
        self._had_zones = zones.any

    def of_queue(self, changed: bool) -> None:
        if changed:
            self._preemptions.forget_all()

    def of_topology(self, changed: bool) -> None:
        if changed:
            self._preemptions.forget_all()
            self._touched.rest = True

    def of_zones(self, changed: bool) -> None:
        """What pods are told apart by, where they are aligned, matters only while some node has zones."""
        if changed:
            self._touched.rest = True
            if self._had_zones != self._zones.any:
                self._had_zones = self._zones.any
                self._touched.pods.update(self._pods)

    def of_device_class(self, changed: bool) -> None:
        """Any pod may ask for an extended resource for which another class stands in now."""
        if changed:
            self._touched.pods.update(self._pods)
