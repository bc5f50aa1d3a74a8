"""Volcano's kinds that Grove's backend for it writes (PodGroup) and reads (HyperNode).

The definitions are Volcano's (1.14 or newer: PodGroups with `subGroupPolicy`), and may not be installed.
"""

from __future__ import annotations

from bosket.api.object import KubeObject, LabelSelector, Wire
from bosket.api.resource import AnyResource, Resource


class NetworkTopology(Wire):
    """How far apart pods may be: a tier of HyperNodes, by number or name, required (hard) or preferred (soft)."""

    mode: str = ""
    highestTierAllowed: int | None = None
    highestTierName: str = ""


class SubGroupPolicy(Wire):
    """Pods of a group that go together: those that match, by the values of some labels."""

    name: str = ""
    labelSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] = ()
    subGroupSize: int | None = None
    minSubGroups: int | None = None
    networkTopology: NetworkTopology | None = None


class PodGroupSpec(Wire):
    """What a gang needs in order to run."""

    minMember: int = 0
    queue: str = ""
    priorityClassName: str = ""
    networkTopology: NetworkTopology | None = None
    subGroupPolicy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Wire):
    """What came of trying to place a gang."""

    type: str = ""
    status: str = ""
    transitionID: str = ""
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Wire):
    """How a gang fares; the scheduler writes it."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(KubeObject):
    """Pods that Volcano schedules together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class QueueStatus(Wire):
    """How a queue fares."""

    state: str = ""
    """Open, Closed, Closing or Unknown."""


class Queue(KubeObject):
    """Where jobs wait; only whether it takes more is of interest here."""

    status: QueueStatus = QueueStatus()


class HyperNodeSpec(Wire):
    """A domain of nodes; the higher its tier, the farther apart they are."""

    tier: int = 0
    tierName: str = ""


class HyperNode(KubeObject):
    """A part of the network."""

    spec: HyperNodeSpec = HyperNodeSpec()


RESOURCES: tuple[AnyResource, ...] = (
    Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", PodGroup),
    Resource("scheduling.volcano.sh", "v1beta1", "Queue", "queues", Queue, namespaced=False),
    Resource("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", HyperNode, namespaced=False),
)
