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
        self._moving = [f for f in session.node_filters if not f.fixed]
        self._fixed_codes = self._ask_fixed()
        self._allowed: Mask = self._fixed_codes == 0
        self._explained: tuple[int, NodesRefused] | None = None
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
        """Why no node takes the pod: the first objection of each node, counted. Remembered until something changes."""
        if self._explained is None or self._explained[0] != len(self._ledger.log):
            self._explained = (len(self._ledger.log), self._count_objections())
        return self._explained[1]

    def _count_objections(self) -> NodesRefused:
        codes = self._fixed_codes
        for node_filter in self._moving:
            codes = np.where(codes == 0, node_filter.codes(self._class, slice(None)), codes)
        book = self._session.reason_book
        numbers, counts = np.unique(codes[codes != 0], return_counts=True)
        objections = Counter({book.text(int(n)): int(count) for n, count in zip(numbers, counts, strict=True)})
        fine = codes == 0
        names = self._session.snapshot.resource_names
        free = self._ledger.idle + self._ledger.releasing
        for place in self._class.needed:
            resource = SHORT_OF.get(names[place], names[place])
            short = int((fine & (free[place] < self._class.request[place])).sum())
            objections[f"node(s) didn't have enough resources: {resource}"] += short
        objections["node(s) pod number exceeded"] += int((fine & (free[PODS] < 1)).sum())
        return NodesRefused.of(objections)

    def _ask_fixed(self) -> ReasonCodes:
        """The first objection of each node among those that nothing in this cycle changes."""
        codes = np.zeros(len(self._session.snapshot.nodes), dtype=np.int32)
        for node_filter in self._session.node_filters:
            if node_filter.fixed:
                codes = np.where(codes == 0, node_filter.codes(self._class, slice(None)), codes)
        return codes

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
