"""AttachedVolumes: which volumes are attached to which nodes during a cycle; kept by `VolumeLedger`."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.volume import Attachment, Contest

#: More than any node attaches.
UNLIMITED = 2**31


class AttachedVolumes:
    """How many volumes of each driver are attached to each node, a volume that several pods use counted once."""

    def __init__(self, session: Session) -> None:
        self._snapshot = session.snapshot
        self._limits: dict[str, NDArray[np.int64]] = {}
        self._used: dict[str, NDArray[np.int64]] = {}
        self._users: dict[Attachment, Counter[int]] = {}
        rows = self._snapshot.nodes.rows
        for node, counts in self._snapshot.volumes.attached.items():
            row = rows.get(node)
            if row is not None:
                for attachment, users in counts.items():
                    self._users.setdefault(attachment, Counter())[row] = users
                    self._used_by(attachment.driver)[row] += 1

    def full(self, contest: Contest, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Nodes that can't attach all that a pod adds to what they have."""
        new: dict[str, NDArray[np.int64]] = {}
        for driver, count in contest.attached:
            new[driver] = np.full(len(rows), count, dtype=np.int64)
        for attachment in contest.shared:
            users = self._users.get(attachment, Counter())
            absent = np.array([row not in users for row in rows.tolist()], dtype=np.int64)
            new[attachment.driver] = new.get(attachment.driver, 0) + absent
        result = np.zeros(len(rows), dtype=bool)
        for driver, added in new.items():
            result |= (added > 0) & (self._used_by(driver)[rows] + added > self._limit_of(driver)[rows])
        return result

    def add(self, attachments: tuple[Attachment, ...], row: NodeRow, change: int) -> None:
        for each in attachments:
            users = self._users.setdefault(each, Counter())
            before = users[row]
            users[row] = before + change
            if not users[row]:
                del users[row]
            self._used_by(each.driver)[row] += (before + change > 0) - (before > 0)

    def _used_by(self, driver: str) -> NDArray[np.int64]:
        found = self._used.get(driver)
        if found is None:
            found = self._used[driver] = np.zeros(len(self._snapshot.nodes), dtype=np.int64)
        return found

    def _limit_of(self, driver: str) -> NDArray[np.int64]:
        found = self._limits.get(driver)
        if found is None:
            found = np.full(len(self._snapshot.nodes), UNLIMITED, dtype=np.int64)
            rows = self._snapshot.nodes.rows
            for node, limit in self._snapshot.volumes.limits.get(driver, {}).items():
                if node in rows:
                    found[rows[node]] = limit
            self._limits[driver] = found
        return found
