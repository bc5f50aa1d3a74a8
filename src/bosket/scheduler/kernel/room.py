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
        self._objections = [short_of(name) for name in session.snapshot.resource_names]
        self._full = bisect_left(self._ranked[PODS], 1.0)  # nodes that take no further pod

    def refusal(self, pod_class: PodClass) -> NodesRefused | None:
        ranked = self._ranked
        if pod_class.share is not None or self._session.nodes.overdrawn or self._session.settings.detailed_fit_errors:
            return None
        if not ranked[PODS]:
            return None
        texts = self._objections
        objections = {texts[place]: bisect_left(ranked[place], amount) for place, amount in pod_class.needs}
        if len(ranked[PODS]) not in objections.values():  # there is enough of each on some node
            return None
        if not self._session.is_welcome(pod_class):
            return None
        objections[POD_NUMBER] = self._full
        return NodesRefused.of(objections)
