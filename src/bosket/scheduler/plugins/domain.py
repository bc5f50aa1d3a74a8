"""Topology domains: nodes with the same value of a label, and how many pods with a mark are in each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask
from bosket.scheduler.plugins.mark_ledger import Tally

#: The domain of nodes that lack the label: the last place of every array over domains, where nothing is ever counted.
NONE = -1


class Domains:
    """Which domain each node belongs to."""

    __slots__ = ("of_row", "sizes")

    def __init__(self, of_row: NDArray[np.intp]) -> None:
        self.of_row = of_row  #: (node,), `NONE` where the label is missing
        self.sizes = np.bincount(of_row[of_row != NONE])  #: (domain,), nodes in each

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

    __slots__ = ("_eligible", "_seen", "_tally", "changes", "counts", "domains", "flips")

    def __init__(self, tally: Tally, domains: Domains, eligible: Mask | None = None) -> None:
        self._tally, self.domains, self._eligible = tally, domains, eligible
        self.counts = np.zeros(len(domains) + 1, dtype=np.int64)  #: (domain,), and `NONE`
        self._seen = len(tally.log)
        #: how often a domain of several nodes got its first such pod, or lost its last: what is said of the other nodes
        #: of that domain is then another
        self.flips = 0
        self.changes = 0  #: how often the count of a domain of several nodes changed
        rows = np.flatnonzero(tally.rows if eligible is None else tally.rows * eligible)
        np.add.at(self.counts, domains.of_row[rows], tally.rows[rows])
        self.counts[NONE] = 0

    def catch_up(self) -> DomainCount:
        log = self._tally.log
        for row, change in log[self._seen :] if self._seen != len(log) else ():
            domain = int(self.domains.of_row[row])
            if domain == NONE or (self._eligible is not None and not self._eligible[row]):
                continue
            before = int(self.counts[domain])
            self.counts[domain] = before + change
            if self.domains.sizes[domain] > 1:
                self.changes += 1
                self.flips += (before == 0) or (before + change == 0)
        self._seen = len(log)
        return self
