"""VolumeLedger: which volumes are taken during a cycle, and where they are attached; a placement listener.

A pod that was evicted in this cycle still holds its volumes until it is gone. Volumes of pods that are being bound are
not among the offers of a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.extension import PlacementListener
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.volume import Contest, Offer, OpenClaim
from bosket.scheduler.plugins.attached_volumes import AttachedVolumes
from bosket.scheduler.plugins.match_ledger import is_evicted
from bosket.scheduler.plugins.volume_offer import OfferView, Reach


class Choice(NamedTuple):
    """What a pod's open claims get on a node."""

    volumes: tuple[str, ...]  #: for each claim; empty where one is made
    rooms: tuple[tuple[str, int], ...] = ()  #: out of which rooms how many bytes are made


@dataclass(slots=True)
class Settled:
    """A claim that several pods use, since the first of them was placed."""

    row: NodeRow
    volume: str  #: empty when one is made
    users: int


class VolumeLedger(PlacementListener):
    """What is left of volumes, room for volumes, and places to attach them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = len(session.snapshot.nodes)
        #: whether what drivers have left is counted down as volumes are made; KAI's schedule-csi-storage
        self._counts_rooms = session.settings.schedule_csi_storage
        self._reach = Reach(session)
        self._views: dict[Offer, OfferView] = {}
        self._taken: set[str] = set()
        self._version = 0  # changes with what is taken
        self._far = 0  # changes with what is taken and more than one node reaches
        self._used: Counter[str] = Counter()  # by room: bytes that are about to be made
        self._known_rooms: set[str] = set()
        self._settled: dict[ObjectKey, Settled] = {}
        self._given: dict[tuple[Task, NodeRow], Choice] = {}
        self._going: set[tuple[Task, NodeRow]] = set()  # evicted in this cycle, with the row where they are
        self.slots = AttachedVolumes(session)
        session.extensions.placement_listeners.add(self)
        session.extensions.bind_details.add(self._tell)

    # What filters ask

    def global_inputs(self, contest: Contest) -> Hashable:
        """What is said about all nodes stays the same as long as this does."""
        shared = tuple((at.row, at.volume) if (at := self._settlement(each)) else None for each in contest.open)
        return self._far, self._version if self._counts_rooms else 0, shared

    def satisfied(self, contest: Contest, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether all open claims of a pod can be satisfied on these nodes."""
        views = [self._view(claim.offer) for claim in contest.open]
        simple = all(claim.shared is None for claim in contest.open) and not self._counts_rooms
        if simple and len(rows) > 1:
            each_alone = [view.satisfied(self._taken, self._version)[rows] for view in views]
            result: NDArray[np.bool_] = np.logical_and.reduce(each_alone)
            if len(views) == 1:
                return result
            contested = result & ~np.logical_and.reduce([view.made[rows] for view in views])
            for at in np.flatnonzero(contested).tolist():  # where one claim may take what another needs
                result[at] = self._choose(contest, NodeRow(int(rows[at]))) is not None
            return result
        return np.array([self._choose(contest, row) is not None for row in rows.tolist()], dtype=bool)

    # Placements

    def arrived(self, task: Task, row: NodeRow) -> None:
        contest = task.pod_class.contest
        if contest is None:
            return
        if (task, row) in self._going:  # it stays after all
            self._going.discard((task, row))
            return
        self.slots.add(task.storage.attached, row, 1)
        if contest.open and not task.node:  # what pods that have a node get was decided before
            choice = self._choose(contest, row) or Choice(("",) * len(contest.open))
            self._given[task, row] = choice
            self._take(contest, choice, row)

    def left(self, task: Task, row: NodeRow) -> None:
        contest = task.pod_class.contest
        if contest is None:
            return
        if is_evicted(self._session, task, row):
            self._going.add((task, row))
            return
        self.slots.add(task.storage.attached, row, -1)
        choice = self._given.pop((task, row), None)
        if choice is not None:
            self._give_back(contest, choice)

    def _tell(self, bind: Bind, row: NodeRow) -> Bind:
        choice = self._given.get((bind.task, row))
        if choice is None:
            return bind
        chosen = zip(bind.task.storage.open, choice.volumes, strict=True)
        return msgspec.structs.replace(bind, volumes=tuple((claim.name, volume) for claim, volume in chosen))

    def _take(self, contest: Contest, choice: Choice, row: NodeRow) -> None:
        for claim, volume in zip(contest.open, choice.volumes, strict=True):
            settled = self._settlement(claim)
            if settled is not None:
                settled.users += 1
                continue
            if claim.shared is not None:
                self._settled[claim.shared] = Settled(row, volume, 1)
            if volume:
                self._taken.add(volume)
                self._changed(claim.offer, volume)
        for room, size in choice.rooms:
            self._used[room] += size
        self._version += 1

    def _give_back(self, contest: Contest, choice: Choice) -> None:
        for claim, volume in zip(contest.open, choice.volumes, strict=True):
            settled = self._settlement(claim)
            if settled is not None:
                settled.users -= 1
                if settled.users:
                    continue
                assert claim.shared is not None
                del self._settled[claim.shared]
            if volume:
                self._taken.discard(volume)
                self._changed(claim.offer, volume)
        for room, size in choice.rooms:
            self._used[room] -= size
        self._version += 1

    def _changed(self, offer: Offer, volume: str) -> None:
        selector = next(each.reach for each in offer.volumes if each.name == volume)
        if len(self._reach.rows(selector)) > 1:
            self._far += 1

    # Choosing

    def _choose(self, contest: Contest, row: NodeRow) -> Choice | None:
        """For each claim the smallest volume that suits it, else one that is made; None if that can't be."""
        volumes: list[str] = []
        made: dict[str, list[OfferView]] = {}
        for claim in contest.open:
            settled = self._settlement(claim)
            if settled is not None:
                if not self._shares(claim, settled, row):
                    return None
                volumes.append(settled.volume)
                continue
            view = self._view(claim.offer)
            found = view.best(row, self._taken, self._version, volumes)
            if found is None and not view.made[row]:
                return None
            volumes.append(found.name if found is not None else "")
            if found is None and self._counts_rooms and claim.offer.rooms is not None:
                made.setdefault(claim.offer.storage_class, []).append(view)
        rooms = [self._room_for(views, row) for views in made.values()]
        if any(each is None for each in rooms):
            return None
        return Choice(tuple(volumes), tuple(each for each in rooms if each is not None))

    def _shares(self, claim: OpenClaim, settled: Settled, row: NodeRow) -> bool:
        """Whether the node reaches what the claim got for another pod. Of a volume that isn't made yet that is known
        of one node alone; where it may be used on several, it is expected to be within reach wherever it could be made.
        """
        if not settled.volume:
            return row == settled.row or (not claim.one_node and bool(self._view(claim.offer).made[row]))
        selector = next(each.reach for each in claim.offer.volumes if each.name == settled.volume)
        return row in self._reach.rows(selector)

    def _room_for(self, views: list[OfferView], row: NodeRow) -> tuple[str, int] | None:
        """A room out of which all these volumes of one class can be made."""
        total, largest = sum(view.offer.size for view in views), max(view.offer.size for view in views)
        view = views[0]
        for room, nodes in zip(view.offer.rooms or (), view.rooms, strict=True):
            if nodes[row] and room.largest >= largest and total <= room.total - self._used_of(view, room.name):
                return room.name, total
        return None

    def _used_of(self, view: OfferView, room: str) -> int:
        if room not in self._known_rooms:
            self._count_being_made(view)
        return self._used[room]

    def _count_being_made(self, view: OfferView) -> None:
        """What pods that are being bound will have made comes out of the first room that their node has."""
        self._known_rooms.update(room.name for room in view.offer.rooms or ())
        table = self._session.snapshot.nodes.rows
        for each in self._session.snapshot.volumes.being_made:
            row = table.get(each.node)
            if each.storage_class != view.offer.storage_class or row is None:
                continue
            rooms = zip(view.offer.rooms or (), view.rooms, strict=True)
            name = next((room.name for room, nodes in rooms if nodes[row]), None)
            if name is not None:
                self._used[name] += each.size

    def _settlement(self, claim: OpenClaim) -> Settled | None:
        return self._settled.get(claim.shared) if claim.shared is not None else None

    def _view(self, offer: Offer) -> OfferView:
        found = self._views.get(offer)
        if found is None:
            found = self._views[offer] = OfferView(self._session, self._reach, offer)
        return found
