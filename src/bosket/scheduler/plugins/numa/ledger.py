"""ZoneLedger: free amounts of NUMA zones during a cycle, and the zones of each task.

Follows every operation of a statement and its rollback. An evicted task gives its zones back, and gets exactly these
again when the eviction is rolled back, however often it was placed elsewhere meanwhile.

What terminating pods hold is free for pipelined tasks only: bound too early, a pod would be refused by its kubelet. KAI
makes no such difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bosket.scheduler.framework.extension import Kind, PlacementListener
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.numa import NumaNeeds, NumaZones, Policy, Record, is_device
from bosket.scheduler.model.resource import GPU_NAMES
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ClassIndex, PodClass, Task
from bosket.scheduler.plugins.numa.fit import Demand, Given, fit

NOTHING: Given = ()


class NodeZones:
    """The zones of one node during the cycle. Built on first use."""

    __slots__ = ("devices", "free", "now", "resources", "version", "zones")

    def __init__(self, zones: NumaZones, ignored: frozenset[str]) -> None:
        self.zones = zones
        self.free = [list(each) for each in zones.allocatable]  #: when all who are going have gone
        self.now = [list(each) for each in zones.allocatable]  #: though some may have been promised it
        self.version = 0  #: changes with what is free
        #: of the resources that are aligned for Guaranteed pods, and of the devices among them
        self.resources = tuple(resource for resource, name in enumerate(zones.names) if name not in ignored)
        self.devices = tuple(resource for resource in self.resources if is_device(zones.names[resource]))

    def change(self, given: Given, sign: int) -> None:
        """Of what is free when all who are going have gone."""
        _change(self.free, given, sign)
        self.version += 1

    def change_now(self, given: Given, sign: int) -> None:
        _change(self.now, given, sign)
        self.version += 1

    def at_once(self) -> list[list[int]]:
        """What is there now, and promised to nobody."""
        return [list(map(min, *both)) for both in zip(self.free, self.now, strict=True)]

    def aligns(self, needs: NumaNeeds) -> bool:
        """Whether it matters to this node's kubelet where the pod's resources are."""
        if self.zones.policy is Policy.NONE:
            return False
        return needs.guaranteed or any(needs.asks_for(self.zones.names[resource]) for resource in self.devices)

    def demand(self, needs: NumaNeeds) -> Demand:
        return Demand.of(needs, self.zones, self.resources if needs.guaranteed else self.devices)


class ZoneLedger(PlacementListener):
    """Zones of all nodes that tell about theirs, by row."""

    assigns = True

    def __init__(self, session: Session, ignored: frozenset[str], *, reconstruct: bool) -> None:
        """`ignored`: resources, as zones name them, that no kubelet aligns; `reconstruct`: what is free is what pods
        leave, and not what is reported, which may be old."""
        self._session = session
        self._reconstruct = reconstruct
        self._ignored = frozenset("gpu" if name in GPU_NAMES else name for name in ignored)
        rows = session.snapshot.nodes.rows
        zones = {rows[name]: each for name, each in session.snapshot.numa.items() if name in rows}
        self.zones: Mapping[NodeRow, NumaZones] = dict(sorted(zones.items()))
        self._nodes: dict[NodeRow, NodeZones] = {}
        self._held: dict[Task, Given] = {}
        self._given_up: dict[Task, list[Given]] = {}  # by tasks that were evicted in this cycle, the last eviction last
        self._demands: dict[tuple[ClassIndex, tuple[str, ...], object], Demand] = {}
        # Of a class on a node, by the zones' version.
        self._fits: dict[tuple[ClassIndex, NodeRow], tuple[int, Given | None]] = {}

    def at(self, row: NodeRow) -> NodeZones | None:
        """The node's zones, as they are now; None when it tells about none."""
        found = self._nodes.get(row)
        if found is None and row in self.zones:
            found = self._nodes[row] = self._make(row)
        return found

    def fit(self, pod_class: PodClass, row: NodeRow) -> Given | None:
        """What a pod of the class would be given on a node that aligns it; None when it can't be aligned."""
        node = self.at(row)
        needs = pod_class.numa
        assert node is not None
        assert needs is not None
        key = (pod_class.index, row)
        known = self._fits.get(key)
        if known is not None and known[0] == node.version:
            return known[1]
        found = fit(node.zones, node.free, self._demand(pod_class.index, needs, node))
        self._fits[key] = (node.version, found)
        return found

    def fit_now(self, pod_class: PodClass, row: NodeRow) -> Given | None:
        """The same of what needn't be waited for."""
        node = self.at(row)
        needs = pod_class.numa
        assert node is not None
        assert needs is not None
        if node.free == node.now:
            return self.fit(pod_class, row)
        return fit(node.zones, node.at_once(), self._demand(pod_class.index, needs, node))

    def is_free_now(self, pod_class: PodClass, row: NodeRow) -> bool:
        """Whether the kubelet would take a pod of the class at once."""
        node = self.at(row)
        needs = pod_class.numa
        if node is None or needs is None or not node.zones.policy.refuses or not node.aligns(needs):
            return True
        return self.fit_now(pod_class, row) is not None

    def held(self, task: Task, row: NodeRow) -> Given:
        """What the task has of the zones of its node."""
        self.at(row)
        return self._held.get(task, NOTHING)

    # What a statement tells

    def stays(self, task: Task, row: NodeRow) -> bool:
        """Whether it would be given the same as before it was evicted; as in KAI, who is given nothing stays too."""
        given = self._place(task, row)
        return not given or given == self._given_up[task][-1]

    def done(self, kind: Kind, task: Task, row: NodeRow) -> None:
        match kind:
            case Kind.EVICT:
                self._give_up(task, row)
            case Kind.SPARE:
                self._take_back(task, row)
            case Kind.ALLOCATE:
                given = self._place(task, row, at_once=True)
                self._take(task, row, given)
                self._change_now(row, given, -1)
            case Kind.PIPELINE:
                self._take(task, row, self._place(task, row))

    def undone(self, kind: Kind, task: Task, row: NodeRow) -> None:
        match kind:
            case Kind.EVICT:
                self._take_back(task, row)
            case Kind.SPARE:
                self._give_up(task, row)
            case Kind.ALLOCATE:
                self._change_now(row, self._credit(task, row), +1)
            case Kind.PIPELINE:
                self._credit(task, row)

    def _give_up(self, task: Task, row: NodeRow) -> None:
        if row in self.zones:
            self._given_up.setdefault(task, []).append(self._credit(task, row))

    def _take_back(self, task: Task, row: NodeRow) -> None:
        if row in self.zones:
            self._take(task, row, self._given_up[task].pop())

    def _credit(self, task: Task, row: NodeRow) -> Given:
        node = self.at(row)
        given = self._held.pop(task, NOTHING)
        if node is not None and given:
            node.change(given, +1)
        return given

    def _take(self, task: Task, row: NodeRow, given: Given) -> None:
        node = self.at(row)
        if node is not None and given:
            node.change(given, -1)
            self._held[task] = given

    def _change_now(self, row: NodeRow, given: Given, sign: int) -> None:
        node = self.at(row) if given else None
        if node is not None:
            node.change_now(given, sign)

    def _place(self, task: Task, row: NodeRow, *, at_once: bool = False) -> Given:
        needs = task.pod_class.numa
        if needs is None or row not in self.zones:
            return NOTHING
        node = self.at(row)
        if node is None or not node.aligns(needs):
            return NOTHING
        now = self.fit_now(task.pod_class, row) if at_once else None
        return now or self.fit(task.pod_class, row) or NOTHING

    # Made of the snapshot

    def _make(self, row: NodeRow) -> NodeZones:
        node = NodeZones(self.zones[row], self._ignored)
        snapshot = self._session.snapshot
        reconstruct = self._reconstruct and node.zones.policy is not Policy.NONE
        if not reconstruct:
            node.free = [list(each) for each in node.zones.available]
            node.now = [list(each) for each in node.zones.available]
        for task in snapshot.residents.get(snapshot.nodes.nodes[row].metadata.name, ()):
            given = _given_by(task.numa_record, node.zones)
            if not given:
                continue
            if reconstruct:
                node.change_now(given, -1)  # also those that are going are still there
                if task.status in ACTIVE_ALLOCATED:
                    node.change(given, -1)
            needs = task.pod_class.numa
            if needs is not None and node.aligns(needs):
                self._held[task] = given
        return node

    def _demand(self, index: ClassIndex, needs: NumaNeeds, node: NodeZones) -> Demand:
        key = (index, node.zones.names, node.zones.scope)
        found = self._demands.get(key)
        if found is None:
            found = self._demands[key] = node.demand(needs)
        return found


def _change(amounts: list[list[int]], given: Given, sign: int) -> None:
    for zone, of_zone in given:
        for resource, amount in enumerate(of_zone):
            amounts[zone][resource] += sign * amount


def _given_by(record: Record, zones: NumaZones) -> Given:
    """What a pod has, by a record of it; nothing when it names a zone that isn't there: half the truth is worse."""
    if not record or any(zone not in zones.ids for zone, _ in record):
        return NOTHING
    amounts = [(zones.ids.index(zone), zones.vector(dict(named))) for zone, named in record]
    return tuple(sorted(amounts))


def placement_of(given: Given, zones: NumaZones) -> Sequence[tuple[str, dict[str, int]]]:
    """Zones by name, and amounts by the names that the node's exporter uses."""
    return [
        (zones.ids[zone], {zones.reported[resource]: amount for resource, amount in enumerate(amounts) if amount})
        for zone, amounts in given
    ]
