"""OfferView: an offer of volumes over all nodes: which free volumes each node reaches, and where one can be made.

Volumes that the same nodes reach are one `FreeVolumes`: local disks of a node, disks of a zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import NodeSelector
from bosket.kube.node_selector import node_test
from bosket.kube.selector import Selector
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.volume import FreeVolume, Offer
from bosket.scheduler.state.volumes.places import one_label, place_test

NodeRows = NDArray[np.intp]


class FreeVolumes:
    """Free volumes that the same nodes reach, the smallest first."""

    __slots__ = ("_first", "_seen", "rows", "volumes")

    def __init__(self, rows: NodeRows) -> None:
        self.rows = rows
        self.volumes: list[FreeVolume] = []
        self._seen = -1
        self._first = 0

    def first(self, taken: Collection[str], version: int) -> int:
        """The index of the first volume that is not taken; `version` changes whenever `taken` does."""
        if self._seen != version:
            self._seen = version
            volumes = self.volumes
            self._first = next((at for at, each in enumerate(volumes) if each.name not in taken), len(volumes))
        return self._first

    def free(self, taken: Collection[str], version: int) -> Iterator[FreeVolume]:
        return (each for each in self.volumes[self.first(taken, version) :] if each.name not in taken)


class Reach:
    """Which nodes volumes reach. Most selectors ask for a label's values, which is looked up."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[NodeSelector | None, NodeRows] = {}

    def rows(self, selector: NodeSelector | None) -> NodeRows:
        found = self._known.get(selector)
        if found is None:
            found = self._known[selector] = self._find(selector)
        return found

    def _find(self, selector: NodeSelector | None) -> NodeRows:
        nodes = self._session.snapshot.nodes.nodes
        if selector is None:
            return np.arange(len(nodes))
        simple = one_label(selector)
        if simple is None:
            test = node_test(selector)
            return np.array([row for row, node in enumerate(nodes) if test(node)], dtype=np.intp)
        by_value = self._by_value(simple.key)
        rows = [by_value[value] for value in dict.fromkeys(simple.values) if value in by_value]
        return np.sort(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.intp)

    def _by_value(self, label: str) -> dict[str, NodeRows]:
        snapshot = self._session.snapshot

        def look() -> dict[str, NodeRows]:
            found: dict[str, list[int]] = {}
            for row, node in enumerate(snapshot.nodes.nodes):
                value = node.metadata.labels.get(label)
                if value is not None:
                    found.setdefault(value, []).append(row)
            return {value: np.array(rows, dtype=np.intp) for value, rows in found.items()}

        return snapshot.memory.recall(snapshot.nodes.static_version, "rows by label", label, look)


class OfferView:
    """One offer over all nodes."""

    def __init__(self, session: Session, reach: Reach, offer: Offer) -> None:
        self.offer = offer
        self._nodes = len(session.snapshot.nodes)
        by_reach: dict[NodeSelector | None, FreeVolumes] = {}
        for volume in offer.volumes:
            group = by_reach.get(volume.reach)
            if group is None:
                group = by_reach[volume.reach] = FreeVolumes(reach.rows(volume.reach))
            group.volumes.append(volume)
        self._groups = list(by_reach.values())
        self._everywhere = [each for each in self._groups if len(each.rows) == self._nodes]
        self._at: dict[int, list[FreeVolumes]] = {}
        for each in self._groups:
            if len(each.rows) < self._nodes:
                for row in each.rows.tolist():
                    self._at.setdefault(row, []).append(each)
        self.made: Mask = _made(session, offer)  #: where a volume can be made, as far as nobody else has one made
        self.rooms: list[Mask] = [_room(session, each.nodes) for each in offer.rooms or ()]  #: nodes of each room

    def satisfied(self, taken: Collection[str], version: int) -> Mask:
        """Nodes where the offer can be taken up, were it the only one."""
        result = self.made.copy()
        for group in self._groups:
            if group.first(taken, version) < len(group.volumes):
                result[group.rows] = True
        return result

    def best(self, row: NodeRow, taken: Collection[str], version: int, but: Collection[str]) -> FreeVolume | None:
        """The smallest volume within reach that isn't taken, the first by name of several."""
        groups = self._everywhere + self._at.get(row, [])
        firsts = (next((v for v in group.free(taken, version) if v.name not in but), None) for group in groups)
        return min((each for each in firsts if each is not None), key=lambda v: (v.size, v.name), default=None)


def _made(session: Session, offer: Offer) -> Mask:
    snapshot = session.snapshot
    nodes = snapshot.nodes.nodes
    places = offer.made
    if places is None:
        return np.zeros(len(nodes), dtype=bool)
    test = place_test(places)
    made = snapshot.memory.recall(
        snapshot.nodes.static_version, "made", places, lambda: np.array([test(node) for node in nodes], dtype=bool)
    )
    if offer.rooms is None:
        return made
    room = np.zeros(len(nodes), dtype=bool)
    for each in offer.rooms:
        if each.largest >= offer.size:
            room |= _room(session, each.nodes)
    return np.asarray(made & room)


def _room(session: Session, selector: Selector) -> Mask:
    snapshot = session.snapshot
    labels = (node.metadata.labels for node in snapshot.nodes.nodes)
    return snapshot.memory.recall(
        snapshot.nodes.static_version,
        "room",
        selector,
        lambda: np.array([selector.matches(each) for each in labels], dtype=bool),
    )
