"""Topology domains by a node label, with the number of pods with a match key in each."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.plugins.counts import FEW, Counts
from bosket.scheduler.plugins.match_ledger import MatchCount

#: The domain of nodes that lack the label: the last place of every array over domains, where nothing is ever counted.
NONE = -1
NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class Domains:
    """Which domain each node belongs to."""

    __slots__ = ("_by_domain", "_ends", "each_alone", "lacking", "of_row", "sizes")

    def __init__(self, of_row: NDArray[np.intp]) -> None:
        self.of_row = of_row  #: (node,), `NONE` where the label is missing
        self.sizes = np.bincount(of_row[of_row != NONE])  #: (domain,), nodes in each
        self.each_alone = len(self.sizes) == len(of_row)  #: whether every node is a domain of its own: hostnames
        self._by_domain = np.argsort(of_row, kind="stable")  # nodes that lack the label come first
        self._ends = len(of_row) - int(self.sizes.sum()) + np.concatenate(([0], np.cumsum(self.sizes)))
        self.lacking: NDArray[np.intp] = self._by_domain[: self._ends[0]]  #: rows of the nodes that lack the label

    def __len__(self) -> int:
        return len(self.sizes)

    def rows_in(self, domains: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows of all nodes of these domains."""
        if len(domains) > FEW:
            inside = np.zeros(len(self) + 1, dtype=bool)
            inside[domains] = True
            return np.flatnonzero(inside[self.of_row])
        ends, rows = self._ends, self._by_domain
        parts = [rows[ends[domain] : ends[domain + 1]] for domain in domains.tolist()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else NO_ROWS


def domains_of(session: Session, label: str) -> Domains:
    """The domains of a node label; remembered while nodes stay what they are."""
    table = session.snapshot.nodes

    def look() -> Domains:
        number_of: dict[str, int] = {}
        values = (node.metadata.labels.get(label) for node in table.nodes)
        found = (NONE if value is None else number_of.setdefault(value, len(number_of)) for value in values)
        return Domains(np.fromiter(found, np.intp, len(table)))

    return session.snapshot.memory.recall(table.static_version, "domains", label, look)


class DomainCount:
    """Pods with a match key per domain, kept up to date; of nodes in `eligible` only, if that is given."""

    __slots__ = ("_counts", "_eligible", "_seen", "changes", "domains", "flips", "match_count")

    def __init__(self, match_count: MatchCount, domains: Domains, eligible: Mask | None = None) -> None:
        self.match_count, self.domains, self._eligible = match_count, domains, eligible
        #: how often a domain of several nodes got its first such pod, or lost its last: what is said of the other nodes
        #: of that domain is then another
        self.flips = 0
        self.changes = 0  #: how often the count of a domain of several nodes changed
        self._seen = len(match_count.log)
        self._counts: Counts | None = None
        if not domains.each_alone or eligible is not None:
            self._counts = self._count()

    def at(self, rows: Rows) -> NDArray[np.int64]:
        """The count in the domain of each of these nodes; 0 where it has none."""
        counts = self.per_domain()
        return self.match_count.rows.at(rows) if counts is None else counts.at(self.domains.of_row[rows])

    def here(self, row: NodeRow) -> int:
        """The same for one node."""
        counts = self.per_domain()
        return self.match_count.rows[row] if counts is None else counts[int(self.domains.of_row[row])]

    def rows(self) -> NDArray[np.intp]:
        """The nodes in whose domain there is such a pod."""
        counts = self.per_domain()
        return self.match_count.rows.indexes() if counts is None else self.domains.rows_in(counts.indexes())

    def is_anywhere(self) -> bool:
        """Whether some domain has such a pod."""
        counts = self.per_domain()
        return len(self.match_count.rows if counts is None else counts) > 0

    def per_domain(self) -> Counts | None:
        """By domain, and an entry for `NONE`. None where each node is a domain of its own: see `match_count.rows`."""
        if self._counts is not None and self._seen != len(self.match_count.log):
            self.catch_up()
        return self._counts

    def catch_up(self) -> Self:
        log, counts = self.match_count.log, self._counts
        if counts is not None:
            for row, change in log[self._seen :]:
                domain = int(self.domains.of_row[row])
                if domain == NONE or (self._eligible is not None and not self._eligible[row]):
                    continue
                before = counts.add(domain, change)
                if self.domains.sizes[domain] > 1:
                    self.changes += 1
                    self.flips += (before == 0) or (before + change == 0)
        self._seen = len(log)
        return self

    def _count(self) -> Counts:
        counts = Counts(len(self.domains) + 1)
        for row in self.match_count.rows.indexes().tolist() if self.match_count.total else ():
            domain = int(self.domains.of_row[row])
            if domain != NONE and (self._eligible is None or self._eligible[row]):
                counts.add(domain, self.match_count.rows[row])
        return counts
