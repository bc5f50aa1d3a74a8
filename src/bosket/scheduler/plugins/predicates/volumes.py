"""Volumes that pods take from each other: each free volume goes to one claim, and nodes attach a limited number."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.predicates.by_node import NO_SPACE, NO_VOLUME
from bosket.scheduler.plugins.volume_ledger import VolumeLedger

TOO_MANY = "node(s) exceed max volume count"


class FreeVolumes(NodeFilter):
    """Objects to nodes where the volumes for a pod's open claims are taken."""

    def __init__(self, session: Session, ledger: VolumeLedger) -> None:
        self._session, self._ledger = session, ledger
        self._none = session.reason_book.number(NO_VOLUME)
        self._no_space = session.reason_book.number(NO_SPACE)

    def concerns(self, pod_class: PodClass) -> bool:
        contest = pod_class.contest
        if contest is None:
            return False
        counts_rooms = self._session.settings.schedule_csi_storage
        return any(
            each.offer.volumes or each.shared or (counts_rooms and each.offer.rooms is not None)
            for each in contest.open
        )

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        return self._ledger.global_inputs(pod_class.contest) if pod_class.contest is not None else None

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        assert pod_class.contest is not None
        # Where every claim could only be made, what is missing is room.
        only_made = not any(each.offer.volumes or each.shared for each in pod_class.contest.open)
        code = self._no_space if only_made else self._none
        fine = self._ledger.satisfied(pod_class.contest, _numbers(self._session, rows))
        return np.where(fine, 0, code).astype(np.int32)


class AttachLimits(NodeFilter):
    """Objects to nodes that would exceed a driver's limit of attached volumes."""

    def __init__(self, session: Session, ledger: VolumeLedger) -> None:
        self._session, self._ledger = session, ledger
        self._code = session.reason_book.number(TOO_MANY)

    def concerns(self, pod_class: PodClass) -> bool:
        contest = pod_class.contest
        return contest is not None and bool(contest.attached or contest.shared)

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        assert pod_class.contest is not None
        full = self._ledger.slots.full(pod_class.contest, _numbers(self._session, rows))
        return np.where(full, self._code, 0).astype(np.int32)


def _numbers(session: Session, rows: Rows) -> NDArray[np.intp]:
    return np.arange(len(session.snapshot.nodes))[rows]
