"""Plugin predicates: which pods can be placed at all, and on which nodes, by Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins.match_ledger import MatchLedger
from bosket.scheduler.plugins.predicates.by_node import ByNode
from bosket.scheduler.plugins.predicates.gpu_kinds import GpuKinds, RoomForReservation
from bosket.scheduler.plugins.predicates.pod_affinity import PodAffinity
from bosket.scheduler.plugins.predicates.ports import HostPorts
from bosket.scheduler.plugins.predicates.spread import TopologySpread
from bosket.scheduler.plugins.predicates.unfit import PodFitness
from bosket.scheduler.plugins.predicates.volumes import AttachLimits, FreeVolumes
from bosket.scheduler.plugins.volume_ledger import VolumeLedger


class Predicates:
    """Registers the filters, in the order in which their objections are reported."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.node_filters.add(GpuKinds(session))
        session.extensions.node_filters.add(RoomForReservation(session))
        session.extensions.node_filters.add(ByNode(session.snapshot, session.reason_book))
        ledger = MatchLedger(session) if session.snapshot.has_match_keys else None
        session.extensions.task_checks.add(PodFitness(session, ledger))
        if ledger is not None:
            session.extensions.node_filters.add(HostPorts(session, ledger))
            session.extensions.node_filters.add(PodAffinity(session, ledger))
            session.extensions.node_filters.add(TopologySpread(session, ledger))
        if session.snapshot.volumes.contested:
            volumes = VolumeLedger(session)
            session.extensions.node_filters.add(FreeVolumes(session, volumes))
            session.extensions.node_filters.add(AttachLimits(session, volumes))
