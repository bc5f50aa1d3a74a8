"""What a pod's claims ask of its node, and what pods compete for because of them.

Made by the live state (`state/volumes`). What depends on a pod and a node alone is in `VolumeNeeds`; what one pod
takes from others, free volumes and places to attach them, is in `Contest`, and is counted by the predicates plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bosket.api.core import NodeSelector
from bosket.api.object import ObjectKey
from bosket.kube.selector import Selector


class Places(NamedTuple):
    """Nodes where one of several volumes can be reached, or be made."""

    everywhere: bool
    #: label and values, of which one must hold, or one of `selectors`
    by_label: tuple[tuple[str, frozenset[str]], ...]
    selectors: tuple[NodeSelector, ...]


class Space(NamedTuple):
    """Where a claim finds a volume, or a driver that tells how much it can make has enough left for one."""

    volumes: Places
    rooms: tuple[Selector, ...]


class VolumeNeeds(NamedTuple):
    """All of it must hold. Equal for pods whose claims have the same effect."""

    reach: tuple[NodeSelector, ...]  #: of the volumes that the claims are bound to
    zones: tuple[tuple[str, frozenset[str]], ...]  #: topology label of such a volume, and the values it lists
    open: tuple[Places, ...]  #: for each claim that is bound when its pod has a node
    space: tuple[Space, ...]  #: for those of them whose driver tells how much it can make
    lost: bool  #: whether a claim is bound to a volume that isn't there


class FreeVolume(NamedTuple):
    """A volume that nobody has yet."""

    name: str
    size: int  #: in bytes
    reach: NodeSelector | None  #: the nodes that reach it; None for all of them


class Room(NamedTuple):
    """How much a driver can make, and for which nodes."""

    name: str
    nodes: Selector
    largest: int  #: volume, in bytes
    total: int  #: in bytes


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What there is for a claim that isn't bound. One object for all claims that ask for the same."""

    storage_class: str
    size: int  #: that is asked for, in bytes
    volumes: tuple[FreeVolume, ...]  #: that would do, the smallest first
    made: Places | None  #: where one can be made; None for nowhere
    rooms: tuple[Room, ...] | None  #: of its driver; None where that doesn't say


class OpenClaim(NamedTuple):
    """A claim that is bound when its pod has a node."""

    offer: Offer
    shared: ObjectKey | None  #: its name, when several pods use it
    one_node: bool  #: whether all its users must be on one node


class Attachment(NamedTuple):
    """A volume that takes one of the places that a node has for those of its driver."""

    driver: str
    handle: str


class Contest(NamedTuple):
    """What a pod competes for with others. Equal for pods that compete for the same."""

    open: tuple[OpenClaim, ...] = ()  #: in the order in which they are served, the smallest first
    attached: tuple[tuple[str, int], ...] = ()  #: by driver: how many volumes that no other pod uses
    shared: tuple[Attachment, ...] = ()  #: those that others use, too

    @property
    def extent(self) -> tuple[int, int]:
        """How many volumes it is about; can be put in order."""
        return len(self.open), sum(count for _, count in self.attached) + len(self.shared)


class PodStorage(NamedTuple):
    """A pod's claims as they stand."""

    needs: VolumeNeeds | None = None
    exclusive: tuple[ObjectKey, ...] = ()  #: claims that one pod at a time may use
    problem: str = ""  #: why the pod can't be placed anywhere
    contest: Contest | None = None
    open: tuple[ObjectKey, ...] = ()  #: the claims of `contest.open`
    attached: tuple[Attachment, ...] = ()  #: volumes of drivers that can't attach any number


NO_STORAGE = PodStorage()


class BeingMade(NamedTuple):
    """A volume that is about to be made, because a pod was given a node."""

    storage_class: str
    node: str
    size: int  #: in bytes


@dataclass(frozen=True, slots=True, eq=False)
class VolumeAccounts:
    """What nodes can attach and have attached; only of drivers that say how much that is."""

    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  #: by driver and node
    attached: Mapping[str, Mapping[Attachment, int]] = field(default_factory=dict)  #: by node: how many pods use it
    being_made: tuple[BeingMade, ...] = ()
    contested: bool = False  #: whether any pod takes something from others; the rest is of no use otherwise


NO_VOLUME_ACCOUNTS = VolumeAccounts()
