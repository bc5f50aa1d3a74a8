"""HostPorts: a host port is taken by at most one pod per protocol and address."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.pod_affinity import ANY_ADDRESS, HostPort
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.match_ledger import MatchLedger

TAKEN = "node(s) didn't have free ports for the requested pod ports"


class HostPorts(NodeFilter):
    """Objects to nodes where one of the pod's ports is taken."""

    def __init__(self, session: Session, ledger: MatchLedger) -> None:
        self._ledger = ledger
        self._code = session.reason_book.number(TAKEN)

    def concerns(self, pod_class: PodClass) -> bool:
        return bool(pod_class.host_ports)

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.host_ports

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        taken = sum(
            self._ledger.match_count(each).rows.at(rows) for port in pod_class.host_ports for each in _rivals(port)
        )
        return np.where(np.asarray(taken) > 0, self._code, 0).astype(np.int32)


def _rivals(port: HostPort) -> tuple[HostPort, ...]:
    """Ports that conflict with this one; the wildcard address conflicts with every address."""
    if not port.address:
        return (port._replace(address=ANY_ADDRESS),)
    return port, port._replace(address="")
