"""Topology domains: nodes with the same value of a label, and how many pods with a mark are in each."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask
from bosket.scheduler.plugins.mark_ledger import Tally

#: The domain of nodes that lack the label: the last place of every array over domains, where nothing is ever counted.
NONE = -1


class Domains:
    """Which domain each node belongs to."""

    __slots__ = ("each_alone", "of_row", "sizes")

    def __init__(self, of_row: NDArray[np.intp]) -> None:
        self.of_row = of_row  #: (node,), `NONE` where the label is missing
        self.sizes = np.bincount(of_row[of_row != NONE])  #: (domain,), nodes in each
        self.each_alone = len(self.sizes) == len(of_row)  #: whether every node is a domain of its own: hostnames

    def __len__(self) -> int:
        return len(self.sizes)


def domains_of(session: Session, label: str) -> Domains:
    """The domains of a node label; remembered while nodes stay what they are."""
    table = session.snapshot.nodes

    def look() -> Domains:
        places: dict[str, int] = {}
        values = (node.metadata.labels.get(label) for node in table.nodes)
        found = (NONE if value is None else places.setdefault(value, len(places)) for value in values)
        return Domains(np.fromiter(found, np.intp, len(table)))

    return session.snapshot.memory.recall(table.static_version, "domains", label, look)


class DomainCount:
    """Pods with a mark per domain, kept up to date; of nodes in `eligible` only, if that is given."""

    __slots__ = ("_counts", "_eligible", "_seen", "changes", "domains", "flips", "tally")

    def __init__(self, tally: Tally, domains: Domains, eligible: Mask | None = None) -> None:
        self.tally, self.domains, self._eligible = tally, domains, eligible
        #: how often a domain of several nodes got its first such pod, or lost its last: what is said of the other nodes
        #: of that domain is then another
        self.flips = 0
        self.changes = 0  #: how often the count of a domain of several nodes changed
        self._seen = len(tally.log)
        self._counts: NDArray[np.int64] | None = None
        if not domains.each_alone or eligible is not None:
            self._counts = self._count()

    def at(self, rows: Rows) -> NDArray[np.int64]:
        """The count in the domain of each of these nodes; 0 where it has none."""
        counts = self.per_domain()
        return self.tally.rows[rows] if counts is None else counts[self.domains.of_row[rows]]

    def is_anywhere(self) -> bool:
        """Whether some domain has such a pod."""
        counts = self.per_domain()
        return bool((self.tally.rows if counts is None else counts).any())

    def per_domain(self) -> NDArray[np.int64] | None:
        """(domain,), and a place for `NONE`. None where each node is a domain of its own: the tally says it all."""
        if self._counts is not None and self._seen != len(self.tally.log):
            self.catch_up()
        return self._counts

    def catch_up(self) -> Self:
        log, counts = self.tally.log, self._counts
        if counts is not None:
            for row, change in log[self._seen :]:
                domain = int(self.domains.of_row[row])
                if domain == NONE or (self._eligible is not None and not self._eligible[row]):
                    continue
                before = int(counts[domain])
                counts[domain] = before + change
                if self.domains.sizes[domain] > 1:
                    self.changes += 1
                    self.flips += (before == 0) or (before + change == 0)
        self._seen = len(log)
        return self

    def _count(self) -> NDArray[np.int64]:
        counts = np.zeros(len(self.domains) + 1, dtype=np.int64)
        if self.tally.total:
            rows = np.flatnonzero(self.tally.rows if self._eligible is None else self.tally.rows * self._eligible)
            np.add.at(counts, self.domains.of_row[rows], self.tally.rows[rows])
            counts[NONE] = 0
        return counts
