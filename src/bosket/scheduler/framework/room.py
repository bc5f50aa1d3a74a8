"""Room: fast refusals: whether a pod class can't fit on any node, from sorted amounts of what is free.

Used while nothing is placed because the cluster is full: a class that asks for more than any node has is refused
without looking at nodes one by one. None for a class that might fit, or to which filters object.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.class_view import POD_NUMBER, short_of
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.reason import NodesRefused
from bosket.scheduler.model.resource import PODS, ResourceIndex
from bosket.scheduler.model.task import PodClass


class Room:
    """What is free or being released, at one moment of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: by resource, of those that were asked for: the amounts of all nodes, the smallest first
        self._ranked: dict[ResourceIndex, NDArray[np.float64]] = {}
        self._objections = [short_of(name) for name in session.snapshot.resource_names]

    def _below(self, resource: ResourceIndex, amount: float) -> int:
        """How many nodes have less than an amount of a resource."""
        ranked = self._ranked.get(resource)
        if ranked is None:
            nodes = self._session.nodes
            ranked = self._ranked[resource] = np.sort(nodes.idle[resource] + nodes.releasing[resource])
        return int(ranked.searchsorted(amount))

    def refusal(self, pod_class: PodClass) -> NodesRefused | None:
        count = len(self._session.snapshot.nodes)
        if pod_class.share is not None or self._session.nodes.overdrawn or self._session.settings.detailed_fit_errors:
            return None
        if not count:
            return None
        texts = self._objections
        objections = {texts[resource]: self._below(resource, amount) for resource, amount in pod_class.needs}
        if count not in objections.values():  # there is enough of each on some node
            return None
        if not self._session.views.unrestricted(pod_class):
            return None
        objections[POD_NUMBER] = self._below(PODS, 1.0)
        return NodesRefused.of(objections)
