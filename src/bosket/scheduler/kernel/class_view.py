"""Fit and score of one pod class over all nodes.

Everything that doesn't change during a cycle is computed once. Placing a pod changes one column of the ledger; the view
then looks at that column alone, unless what all scores rest on (a minimum over nodes, say) moved with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from bosket.scheduler.framework.extension import ReasonCodes, Rows
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import PODS
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.reason import NodesRefused

if TYPE_CHECKING:
    from bosket.scheduler.framework.session import Session

#: From this many changed columns on, computing all of them at once is cheaper.
FEW_ROWS = 32

SHORT_OF = {"cpu": "CPU cores", "memory": "memory", "gpu": "GPUs"}


class ClassView:
    """Which node is best for the next pod of a class."""

    def __init__(self, session: Session, pod_class: PodClass) -> None:
        self._session = session
        self._ledger = session.nodes
        self._class = pod_class
        self._wanted = pod_class.request[pod_class.needed][:, None]
        self._fixed = [f for f in session.node_filters if f.fixed]
        self._moving = [f for f in session.node_filters if not f.fixed]
        self._allowed = self._allowed_by_fixed()
        self._bases: list[Hashable] = []
        self._total = np.empty(len(session.snapshot.nodes))
        self._seen = -1

    def best(self) -> int | None:
        """The row with the highest score among nodes that can take the pod; the smallest name on a tie."""
        if not len(self._total):
            return None
        self._catch_up()
        row = int(self._total.argmax())
        return row if self._total[row] > -np.inf else None

    def explain(self) -> NodesRefused:
        """Why no node takes the pod: the first objection of each node, counted."""
        every = slice(None)
        codes = np.zeros(len(self._total), dtype=np.int32)
        for node_filter in (*self._fixed, *self._moving):
            codes = np.where(codes == 0, node_filter.codes(self._class, every), codes)
        book = self._session.reason_book
        counts = Counter[str]()
        for number, count in zip(*np.unique(codes, return_counts=True), strict=True):
            if number:
                counts[book.text(int(number))] += int(count)
        for row in np.flatnonzero(codes == 0):
            for text in self._shortages(int(row)):
                counts[text] += 1
        return NodesRefused.of(counts)

    def _shortages(self, row: int) -> list[str]:
        names = self._session.snapshot.resource_names
        request = self._class.request
        free = self._ledger.idle[:, row]
        short = [
            f"node(s) didn't have enough resources: {SHORT_OF.get(names[place], names[place])}"
            for place in self._class.needed
            if free[place] < request[place]
        ]
        return ["node(s) pod number exceeded", *short] if free[PODS] < 1 else short

    def _allowed_by_fixed(self) -> Mask:
        nodes = self._session.snapshot.nodes
        allowed = np.ones(len(nodes), dtype=bool)
        for node_filter in self._fixed:
            allowed &= node_filter.codes(self._class, slice(None)) == 0
        return allowed

    def _catch_up(self) -> None:
        log = self._ledger.log
        if self._seen == len(log):
            return
        bases = [scorer.basis(self._class) for scorer in self._session.node_scores]
        changed = len(log) - self._seen
        if self._seen < 0 or changed > FEW_ROWS or bases != self._bases:
            self._score(slice(None))
        else:
            self._score(np.unique(np.array(log[self._seen :], dtype=np.intp)))
        self._bases = bases
        self._seen = len(log)

    def _score(self, rows: Rows) -> None:
        fits = self._allowed[rows] & self._fits(rows)
        for node_filter in self._moving:
            codes: ReasonCodes = node_filter.codes(self._class, rows)
            fits &= codes == 0
        total = np.zeros(len(fits))
        for scorer in self._session.node_scores:
            total += scorer.scores(self._class, rows)
        total[~fits] = -np.inf
        self._total[rows] = total

    def _fits(self, rows: Rows) -> Mask:
        """Whether the request fits into what is free or being released."""
        idle, releasing = self._ledger.idle, self._ledger.releasing
        needed = self._class.needed
        if isinstance(rows, slice):
            free = idle[needed] + releasing[needed]
        else:
            free = idle[np.ix_(needed, rows)] + releasing[np.ix_(needed, rows)]
        pods = idle[PODS, rows] + releasing[PODS, rows]
        return np.asarray((free >= self._wanted).all(axis=0) & (pods >= 1))
