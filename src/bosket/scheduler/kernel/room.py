"""A quick no: whether a pod class can't fit anywhere, from what is free on nodes, ranked once for all classes.

Asked while nothing is being placed because the cluster is full: a class that asks for more than any node has is told so
without looking at nodes one by one. It says nothing (None) about a class that might fit, or that nodes object to.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from bosket.scheduler.kernel.class_view import POD_NUMBER, short_of
from bosket.scheduler.model.resource import PODS
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.reason import NodesRefused

if TYPE_CHECKING:
    from bosket.scheduler.framework.session import Session


class Room:
    """What is free or being released, as of one moment of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        ledger = session.nodes
        #: by resource: the amounts of all nodes, the smallest first
        self._ranked: list[list[float]] = np.sort(ledger.idle + ledger.releasing, axis=1).tolist()

    def refusal(self, pod_class: PodClass) -> NodesRefused | None:
        ranked = self._ranked
        if pod_class.share is not None or self._session.nodes.overdrawn:
            return None
        if not ranked[PODS] or all(ranked[place][-1] >= amount for place, amount in pod_class.needs):
            return None
        if not self._session.is_welcome(pod_class):
            return None
        names = self._session.snapshot.resource_names
        objections = {short_of(names[place]): bisect_left(ranked[place], amount) for place, amount in pod_class.needs}
        objections[POD_NUMBER] = bisect_left(ranked[PODS], 1.0)
        return NodesRefused.of(objections)
