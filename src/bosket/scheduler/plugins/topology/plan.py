"""Plans: nodes for all tasks of a job at once, where placing it part by part, as KAI does, fails.

KAI counts every pod of a group as its largest one, and never takes another domain for one sub-group so that the next
one fits. Here domains that can't hold their tasks are ruled out by sums, and the rest is searched with backtracking,
large parts and large pods first. The search is about amounts only; the caller places the tasks, and drops the plan
where a filter objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask, NodeRow, rows_in
from bosket.scheduler.model.reason import TopologyUnusable
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.plugins.topology.capacity import Demand
from bosket.scheduler.plugins.topology.choice import domains_beside_others
from bosket.scheduler.plugins.topology.constraint import Constraints
from bosket.scheduler.plugins.topology.node_room import NodeRoom, NodeState

#: Steps per search, in addition to some per task.
MOST_STEPS, STEPS_PER_TASK = 2_000, 4
#: Steps for all searches of a session.
MOST_STEPS_OF_ALL = 50_000
#: So many nodes are looked at in one step.
NODES_PER_STEP = 8


class Plans:
    """The plans of one session."""

    def __init__(self, session: Session, constraints: Constraints) -> None:
        self._session, self._constraints = session, constraints
        self._steps = MOST_STEPS_OF_ALL

    def concerns(self, job: JobState) -> bool:
        """Also jobs for which no plan is needed, but that KAI judges wrongly in other ways: where there is one domain
        only that they could be in, and where they have others evicted for more of a gang that runs in part."""
        if not job.is_constrained:
            return False
        constraints = [each for each in job.job.topologies() if each is not None]
        if any(map(self._constraints.has_one_domain, constraints)):
            return True
        return bool(constraints) and (_has_choice(job, job.next_tasks()) or job.has_active)

    def find(self, job: JobState, tasks: Sequence[Task], on: Mask) -> Mapping[Task, NodeRow] | None:
        """By task, the row of its node, in the order of placement; None if nothing was found."""
        if not _has_choice(job, tasks):
            return None
        root = _Parts(self._session, self._constraints, job, tasks).tree()
        if root is None:
            return None
        steps = min(self._steps, MOST_STEPS + STEPS_PER_TASK * len(tasks))
        search = _Search(NodeRoom(self._session), root, on, steps)
        found = search.run()
        self._steps -= steps - max(search.steps, 0)
        return found


def _has_choice(job: JobState, tasks: Sequence[Task]) -> bool:
    """Whether it matters in which order tasks are placed, and in which domains parts are."""
    if len({task.pod_class for task in tasks}) > 1:
        return True
    return sum(each is not None for each in job.job.topologies()) > 1


@dataclass(eq=False)
class _Part:
    """A part of the job that must be in one domain, or the whole job."""

    tree: TopologyTree | None = None  #: None: all nodes on offer will do
    domains: Sequence[tuple[int, int]] = ()  #: (level, domain), in the order in which they are to be tried
    children: list[_Part] = field(default_factory=list)
    tasks: dict[PodClass, deque[Task]] = field(default_factory=dict)  #: those that are in none of its children

    def classes(self) -> dict[PodClass, int]:
        """How many tasks of which class are in it and its children."""
        found = {pod_class: len(tasks) for pod_class, tasks in self.tasks.items()}
        for child in self.children:
            for pod_class, count in child.classes().items():
                found[pod_class] = found.get(pod_class, 0) + count
        return found


class _Parts:
    """Builds the parts of a job from its sub-groups."""

    def __init__(self, session: Session, constraints: Constraints, job: JobState, tasks: Sequence[Task]) -> None:
        self._session, self._constraints, self._job = session, constraints, job
        self._tasks: dict[str, list[Task]] = {}  # by pod set
        for task in tasks:
            self._tasks.setdefault(job.pod_set(task).name, []).append(task)

    def tree(self) -> _Part | None:
        """The whole job as a part; None where some part has no domain that could hold it."""
        root = _Part()
        return root if self._add(root, self._job.job.root) else None

    def _add(self, above: _Part, group: PodSet | SubGroupSet) -> bool:
        """Whether every part of the group may be placed; it is added to the part that it is in."""
        tasks = [task for each in group.pod_sets() for task in self._tasks.get(each.name, ())]
        if not tasks:
            return True
        part = above
        if group.topology is not None:
            part = _Part()
            above.children.append(part)
        if isinstance(group, PodSet):
            for task in tasks:
                part.tasks.setdefault(task.pod_class, deque()).append(task)
        elif not all(self._add(part, child) for child in group.children):
            return False
        return part is above or self._find_domains(part, group, tasks)

    def _find_domains(self, part: _Part, group: PodSet | SubGroupSet, tasks: list[Task]) -> bool:
        found = self._constraints.resolve(self._job, group)
        if isinstance(found, TopologyUnusable):
            return False
        capacity, (narrowest, widest) = found
        part.tree = tree = capacity.tree
        by_class, classes = self._constraints.by_class(tree), part.classes()
        demand = Demand(tasks, len(self._session.snapshot.resource_names))
        allowed = domains_beside_others(self._job, group, tree, widest, tasks)
        domains: list[tuple[int, int]] = []
        for level in range(narrowest, widest - 1, -1):
            fitting = np.flatnonzero(by_class.may_hold(classes, level) & allowed[level])
            fullness = capacity.fullness(demand, level)
            domains += [(level, each) for each in fitting[np.argsort(-fullness[fitting], kind="stable")].tolist()]
        part.domains = domains
        return bool(domains)


class _Place(NamedTuple):
    """A node that takes pods of the class that is being placed."""

    row: NodeRow
    slots: int  #: how many of them
    after: int  #: how many the nodes take that come later


class _Fill(NamedTuple):
    """An item of the agenda: tasks of a part that go to nodes of a region, class by class."""

    part: _Part
    region: Mask
    classes: tuple[PodClass, ...]  #: whose tasks still have no node, not all of them in the case of the first
    left: int  #: how many of the first class that are
    places: tuple[_Place, ...] | None = None  #: for these, in the order in which they are filled; None: to be found
    start: int = 0  #: the first that still takes some


class _Choose(NamedTuple):
    """An item of the agenda: a part that needs a domain inside a region."""

    part: _Part
    region: Mask


_Item = _Choose | _Fill


class _Agenda(NamedTuple):
    """The items still to be done, the next one first."""

    item: _Item
    rest: _Agenda | None


class _Search:
    """A depth-first search over domains of parts and nodes of tasks, until everything is placed or the steps are used
    up."""

    def __init__(self, room: NodeRoom, root: _Part, on: Mask, steps: int) -> None:
        self._room, self._root, self._on = room, root, on
        self.steps = steps  #: that are left
        self._placed: list[tuple[_Part, PodClass, NodeRow, int]] = []  # part, class, row of a node, pods
        self._kinds: dict[NodeRow, tuple[int, ...]] = {}  # by row: the domains of the levels that some part may need
        self._of_rows = list({id(of_row): of_row for of_row in _levels_in(root)}.values())

    def run(self) -> dict[Task, NodeRow] | None:
        """By task, the row of a node."""
        begin = _items(self._root, self._on)
        agenda = _pushed(begin, None)
        if agenda is None:
            return {}
        frames: list[tuple[Iterator[tuple[_Item, ...]], _Agenda | None]] = [(self._ways(agenda.item), agenda.rest)]
        while frames and self.steps > 0:
            ways, rest = frames[-1]
            then = next(ways, None)
            if then is None:
                frames.pop()
                continue
            agenda = _pushed(then, rest)
            if agenda is None:
                return self._by_task()
            frames.append((self._ways(agenda.item), agenda.rest))
        return None

    def _by_task(self) -> dict[Task, NodeRow]:
        return {
            task: row
            for part, pod_class, row, count in self._placed
            for task in [part.tasks[pod_class].popleft() for _ in range(count)]
        }

    def _ways(self, item: _Item) -> Iterator[tuple[_Item, ...]]:
        """Yields each way to deal with an item, in effect until the next one is requested, with the items to do
        first."""
        return self._domains_for(item) if isinstance(item, _Choose) else self._nodes_for(item)

    def _domains_for(self, item: _Choose) -> Iterator[tuple[_Item, ...]]:
        part = item.part
        assert part.tree is not None
        for level, domain in part.domains:
            self.steps -= 1
            region = item.region & part.tree.levels[level].nodes_of(domain)
            if region.any():
                yield _items(part, region)

    def _nodes_for(self, fill: _Fill) -> Iterator[tuple[_Item, ...]]:
        room, (pod_class, *others), left = self._room, fill.classes, fill.left
        places = self._places(fill) if fill.places is None else fill.places
        # one of several equal nodes stands for all: trying another would fail the same way
        seen: set[tuple[NodeState, tuple[int, ...]]] = set()
        for number in range(fill.start, len(places)):
            row, slots, after = places[number]
            if slots + after < left:
                return
            before = room.state(row)
            kind = (before, self._kind(row))
            if kind in seen:
                continue
            seen.add(kind)
            for count in range(min(slots, left), max(left - after, 1) - 1, -1):
                self.steps -= 1
                room.put(row, room.with_pods(pod_class, row, count))
                self._placed.append((fill.part, pod_class, row, count))
                if count < left:
                    yield (fill._replace(left=left - count, places=places, start=number + 1),)
                else:
                    yield _fills(fill.part, fill.region, tuple(others))
                self._placed.pop()
                room.put(row, before)

    def _places(self, fill: _Fill) -> tuple[_Place, ...]:
        """The nodes that take pods of the first class, those with the least room first."""
        pod_class = fill.classes[0]
        rows = rows_in(fill.region & self._room.usable(pod_class))
        self.steps -= len(rows) // NODES_PER_STEP
        slots = sorted((self._room.slots(pod_class, row, fill.left), row) for row in rows)
        places: list[_Place] = []
        after = 0
        for count, row in reversed(slots):
            if count:
                places.append(_Place(row, count, after))
                after += count
        return tuple(reversed(places))

    def _kind(self, row: NodeRow) -> tuple[int, ...]:
        found = self._kinds.get(row)
        if found is None:
            found = self._kinds[row] = tuple(int(each[row]) for each in self._of_rows)
        return found


def _items(part: _Part, region: Mask) -> tuple[_Item, ...]:
    """What is to be done for a part whose nodes are known: the parts inside it first, those that ask for most first."""
    ordered = sorted(part.children, key=_size, reverse=True)
    classes = tuple(sorted(part.tasks, key=_pod_size, reverse=True))
    return (*(_Choose(child, region) for child in ordered), *_fills(part, region, classes))


def _fills(part: _Part, region: Mask, classes: tuple[PodClass, ...]) -> tuple[_Fill, ...]:
    return (_Fill(part, region, classes, len(part.tasks[classes[0]])),) if classes else ()


def _pushed(items: tuple[_Item, ...], rest: _Agenda | None) -> _Agenda | None:
    for item in reversed(items):
        rest = _Agenda(item, rest)
    return rest


def _pod_size(pod_class: PodClass) -> tuple[float, ...]:
    """Sort key: pods with more GPUs are larger. Equal ones stay in the order of tasks."""
    gpus, millicores, memory = pod_class.charge
    return (gpus, pod_class.amounts[GPU], millicores, memory)


def _size(part: _Part) -> tuple[float, ...]:
    classes = part.classes().items()
    return tuple(sum(count * pod_class.charge[resource] for pod_class, count in classes) for resource in range(3))


def _levels_in(part: _Part) -> Iterator[NDArray[np.intp]]:
    """(node,): the domain, of each level that some part may have a domain of."""
    if part.tree is not None:
        for number in {number for number, _ in part.domains}:
            yield part.tree.levels[number].of_row
    for child in part.children:
        yield from _levels_in(child)
