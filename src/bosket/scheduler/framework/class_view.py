"""ClassView: fit and score of one pod class over all nodes.

What can't change during a cycle is computed once. After a placement only the changed columns of the ledger are looked
at again, unless a global input of the scores (such as a minimum over all nodes) changed with it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.api.keys import MIG_RESOURCE_PREFIX
from bosket.scheduler.framework.extension import NodeFilter, NodeScorer, ReasonBook, ReasonCodes, Rows, Scores
from bosket.scheduler.framework.extension_points import ExtensionPoints
from bosket.scheduler.framework.ledger import NodeCells, NodeLedger
from bosket.scheduler.model.cell import Cells, cells
from bosket.scheduler.model.node import NOWHERE, Mask, NodeRow
from bosket.scheduler.model.reason import MOST_NODES_NAMED, JobReason, NodesRefused
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import PodClass

#: From this many changed rows on, computing them as an array is cheaper; from this many changes on, all rows.
FEW_ROWS = 16
FEW_CHANGES = 256
#: How many rows of an array computation cost as much as one single row.
MUCH_CHEAPER = 16
EVERYWHERE = slice(None)
NO_SCORES: Scores = np.empty(0)

SHORT_OF = {"cpu": "CPU cores", "memory": "memory", "gpu": "GPUs", "gpu memory": "GPU memory"}
POD_NUMBER = "node(s) pod number exceeded"
#: What nodes say that have too little of a resource begins so.
SHORT_PREFIXES = ("node(s) didn't have enough resources: ", "node(s) didn't have enough of mig profile: ")


def short_of(resource: str) -> str:
    """The reason text for nodes with too little of a resource."""
    if resource.startswith(MIG_RESOURCE_PREFIX):
        return f"{SHORT_PREFIXES[1]}{resource}"
    return f"{SHORT_PREFIXES[0]}{SHORT_OF.get(resource, resource)}"


#: By resource: how many of the node table's units make one unit in messages.
_UNITS = {"cpu": 1e3, "memory": 1e9}


def lack_of(node: str, resource: str, requested: float, used: float, capacity: float) -> str:
    """The detailed reason text for one node: requested, used and total amounts, in the node table's units."""
    unit, what = _UNITS.get(resource, 1.0), SHORT_OF.get(resource, resource)
    asked, held, total = (f"{round(amount / unit, 3):g}" for amount in (requested, used, capacity))
    return f"{node} didn't have enough resources: {what}, requested: {asked}, used: {held}, capacity: {total}"


def _cannot_afford(reason: JobReason) -> str:
    return f"node does not have enough capacity. Reason: {reason.code}, Details: {reason}"


class Home(NamedTuple):
    """The node that an evicted pod was on; rows of the node table, or NOWHERE."""

    row: NodeRow  #: of the node that it had, or was promised
    was_promised: bool
    runs_on: NodeRow  #: of the node where it runs, if it was to move from there to the one that it was promised


NO_HOME = Home(NOWHERE, was_promised=False, runs_on=NOWHERE)


#: The nodes that a choice was made among: all of them, those of a mask, or these rows.
Among = Mask | NDArray[np.intp] | None


class StaticVerdict(NamedTuple):
    """The objections of static filters: those whose answers can't change during a cycle."""

    codes: ReasonCodes
    allowed: Mask  #: where the filters object to nothing
    is_unrestricted: bool  #: whether the filters object to no node at all


class Asked(NamedTuple):
    """The filters and scorers that are called for a class, in order."""

    filters: list[NodeFilter]
    scorers: list[NodeScorer]
    static: StaticVerdict  #: of the static ones among the filters

    def without_neighbours(self) -> Asked:
        """The same without those whose answers depend on other pods of the node or domain."""
        filters = [each for each in self.filters if not goes_by_neighbours(each)]
        return Asked(filters, [each for each in self.scorers if not goes_by_neighbours(each)], self.static)


@dataclass(frozen=True, slots=True, eq=False)
class ViewContext:
    """What all class views of a session share."""

    snapshot: Snapshot
    nodes: NodeLedger
    extensions: ExtensionPoints
    reason_book: ReasonBook
    detailed_fit_errors: bool


class ClassView:
    """Answers which node is best for the next pod of a class."""

    def __init__(self, context: ViewContext, pod_class: PodClass, asked: Asked) -> None:
        self._context = context
        self._ledger = context.nodes
        self._class = pod_class
        self._moving = [each for each in asked.filters if not each.static]
        self._scored_by = asked.scorers
        self.static = asked.static  #: objections that can't change during the cycle
        self.allowed = self.static.allowed  #: (node,): True where no static filter objects
        self._allowed_at: Cells[int] = cells(self.allowed)
        moving: tuple[NodeFilter | NodeScorer, ...] = (*self._moving, *self._scored_by)
        self._with_inputs = [each for each in moving if not each.static and _has_global_inputs(each)]
        self._by_arrays = any(each.by_arrays for each in self._scored_by)
        self._explained: tuple[int, NodesRefused] | None = None
        self._lasting: tuple[Mask, Counter[str]] | None = None  # see `_count_codes`
        self._inputs: list[Hashable] = []
        self._total = NO_SCORES  # until the first question
        self._total_at: Cells[int] = cells(NO_SCORES)
        self._seen = -1
        #: how often the scores of all nodes were recomputed
        self.renewals = 0
        # The first of the nodes with the highest score. It mostly stays, or is the one that changed: looking through
        # all nodes after each placement would cost more the more there are.
        self._best: NodeRow | None = None
        self._best_total = -math.inf
        # Whether pods go to the same node until it is full, or a filter objects to it: see `NodeScorer.packs`.
        self._stays = all(each.packs(pod_class) for each in context.extensions.node_scores) and not any(
            map(goes_by_neighbours, self._moving)
        )
        #: whether they do with nobody looking at the node in between
        self.packs = self._stays and not self._moving
        # The latest choice: the node, how many changes to nodes had been seen, and out of which it was chosen.
        self._chosen_row, self._chosen_at = NOWHERE, -2  # nothing yet
        self._chosen_among: tuple[Among, Scores | None] = (None, None)

    @property
    def only_loses_room(self) -> bool:
        """Whether placing other pods can only remove nodes for this class, never add one."""
        return all(each.only_takes for each in self._moving)

    @property
    def scores(self) -> Scores:
        """(node,): scores, -inf for nodes that can't take a pod; as of the latest `catch_up`."""
        return self._total

    def score(self, row: NodeRow) -> float:
        """The score of one node, as of the latest `catch_up`."""
        return self._total_at[row]

    @property
    def is_local(self) -> bool:
        """Whether placing a pod on a node changes fit and score for this class on that node only."""
        return not self._with_inputs

    def fits(self, on: Mask) -> NDArray[np.intp]:
        """The rows of `on` with enough of every resource and no static objection."""
        return np.flatnonzero(on & self.allowed & self._ledger.fit(self._class))

    def takes(self, row: NodeRow) -> bool:
        """Whether a node can take a pod of this class now."""
        if not self._allowed_at[row] or not self._ledger.fits(self._class, row):
            return False
        return not self._is_refused(row)

    def _is_refused(self, row: NodeRow) -> bool:
        """Whether a non-static filter objects to a node."""
        for each in self._moving:  # noqa: SIM110 - asked for every pod that is placed: a generator costs more
            if each.code(self._class, row):
                return True
        return False

    def best_of(self, rows: NDArray[np.intp], bonus: Scores | None = None) -> NodeRow | None:
        """The same as `best` for a few rows, given in order."""
        if not len(rows):
            return None
        if self._stays and self._goes_on(rows, bonus):
            return self._chosen_row
        self.catch_up()
        total = self._total[rows] if bonus is None else self._total[rows] + bonus[rows]
        position = int(total.argmax())
        return self._chosen(NodeRow(int(rows[position])), rows, bonus) if total[position] > -math.inf else None

    def best(self, on: Mask | None = None, bonus: Scores | None = None) -> NodeRow | None:
        """The row with the highest score among nodes that can take the pod; the smallest name on a tie.

        `on`: the nodes that may be used, all by default; `bonus`: (node,) added to the scores. `argmax` returns the
        first maximum, and rows are sorted by name: that is KAI's tie-break.
        """
        if not len(self.allowed):
            return None
        if self._stays and self._goes_on(on, bonus):
            return self._chosen_row
        self.catch_up()
        if on is None and bonus is None:
            if self._best is None:
                self._best = NodeRow(int(self._total.argmax()))
                self._best_total = self._total_at[self._best]
            return self._chosen(self._best, on, bonus) if self._best_total > -math.inf else None
        total = self._total if bonus is None else self._total + bonus
        if on is not None:
            total = np.where(on, total, -math.inf)
        row = NodeRow(int(total.argmax()))
        return self._chosen(row, on, bonus) if total[row] > -math.inf else None

    def _chosen(self, row: NodeRow, among: Among, bonus: Scores | None) -> NodeRow:
        if self._stays:
            self._chosen_row, self._chosen_at, self._chosen_among = row, len(self._ledger.log), (among, bonus)
        return row

    def _goes_on(self, among: Among, bonus: Scores | None) -> bool:
        """Whether the latest choice is the best again: the only change since is that a pod of the class was allocated
        there, another one fits, and no filter changed its answer elsewhere. Scores needn't be computed then; see
        `NodeScorer.packs`."""
        ledger, row, now = self._ledger, self._chosen_row, self._chosen_at + 1
        log = ledger.log
        if len(log) != now or log[-1] != row or ledger.allocated_last != (self._class, now):
            return False
        chosen_among, raised_by = self._chosen_among
        if chosen_among is not among or raised_by is not bonus:
            return False
        share = self._class.share
        if share is not None and not ledger.shared.with_room(share, row):
            return False
        if not ledger.fits(self._class, row) or not ledger.fits_idle(self._class, row):
            return False
        if self._moving and (self._current_inputs() != self._inputs or self._is_refused(row)):
            return False
        self._chosen_at = now
        return True

    def fill(self, homes: Sequence[Home], on: Mask | None) -> list[NodeRow] | None:
        """The rows for a list of pods, each pod on the best node at its turn, as `Statement.pipeline` would place them.

        Takes the resources from `releasing`. Returns None, with nothing taken, unless all pods fit. `homes`: the node
        that each pod was evicted from.
        """
        if not len(self.allowed):
            return None
        ledger, pod_class = self._ledger, self._class
        idle, releasing = ledger.idle_at, ledger.releasing_at
        self.catch_up()
        total = self._total.copy() if on is None else np.where(on, self._total, -math.inf)
        total_at: Cells[int] = cells(total)
        rows: list[NodeRow] = []
        undo: list[tuple[NodeCells, NodeRow, list[float]]] = []
        best = NodeRow(int(total.argmax()))
        score = total_at[best]
        for home, was_promised, runs_on in homes:
            if score == -math.inf:
                for at, each, had in reversed(undo):
                    ledger.restore(at, pod_class, each, had)
                return None
            row = best
            if row == runs_on and ledger.fits(pod_class, home):
                row = home  # the pod runs on `row` and had been moved to `home`: the move stays
            undo.append((releasing, row, ledger.take(releasing, pod_class, row)))
            if row == home and was_promised:  # reverses `Statement._release` of a pipelined pod
                undo.append((releasing, row, ledger.take(releasing, pod_class, row)))
                undo.append((idle, row, ledger.give(idle, pod_class, row)))
            rows.append(row)
            self._renew(row)
            self._seen = len(ledger.log)
            if on is None or on[row]:
                total_at[row] = self._total_at[row]
            # `best` was the first maximum. Other rows only changed by earlier pods of this loop, so while its score
            # does not fall it is still the first maximum.
            if row != best or total_at[row] < score:
                best = NodeRow(int(total.argmax()))
            score = total_at[best]
        return rows

    @cached_property
    def scorers(self) -> list[tuple[NodeScorer, Scores | None]]:
        """Scorers in order of registration, because float sums depend on the order; with the scores of those that are
        static.

        Static scorers that give 0 everywhere are dropped.
        """
        static = ((each, each.scores(self._class, EVERYWHERE) if each.static else None) for each in self._scored_by)
        return [(each, scores) for each, scores in static if scores is None or scores.any()]

    def explain(self, over_capacity: Mapping[int, JobReason] | None = None) -> NodesRefused:
        """Why no node takes the pod: the first objection of each node, counted. Cached until a node changes.

        `over_capacity`: by device size, why the pod's queue has no capacity for nodes that would take the pod.
        """
        if over_capacity:
            return self._detailed(NodesRefused.of(self._with_prices(over_capacity)), over_capacity)
        if self._explained is None or self._explained[0] != len(self._ledger.log):
            refused = self._detailed(NodesRefused.of(self._count_objections()), {})
            self._explained = (len(self._ledger.log), refused)
        return self._explained[1]

    def _detailed(self, refused: NodesRefused, over_capacity: Mapping[int, JobReason]) -> NodesRefused:
        """Adds what each node lacks, where KAI's `detailed-fit-errors` is set."""
        if not self._context.detailed_fit_errors:
            return refused
        nodes, codes = self._context.snapshot.nodes.nodes, self.objection_codes()
        named = self._context.snapshot.nodes.all_rows()[:MOST_NODES_NAMED]
        by_node = tuple((nodes[row].metadata.name, self._lacks(row, int(codes[row]), over_capacity)) for row in named)
        return NodesRefused(refused.by_reason, by_node, len(nodes) - len(by_node))

    def _lacks(self, row: NodeRow, code: int, over_capacity: Mapping[int, JobReason]) -> str:
        if code:
            return self._context.reason_book.text(code)
        ledger, names = self._ledger, self._context.snapshot.resource_names
        table, node = self._context.snapshot.nodes, self._context.snapshot.nodes.nodes[row].metadata.name
        free = ledger.idle[:, row] + ledger.releasing[:, row]
        parts = [
            lack_of(node, names[resource], amount, float(table.allocatable[resource, row] - free[resource]),
                    float(table.allocatable[resource, row]))
            for resource, amount in self._class.needs
            if free[resource] < amount
        ]  # fmt: skip
        share = self._class.share
        if share is not None and not ledger.shared.possible(share)[row]:
            parts.append(short_of("gpu memory"))
        elif share is not None and math.floor(free[GPU]) + ledger.shared.count_fitting(share)[row] < share.devices:
            parts.append(short_of("gpu"))
        if free[PODS] < 1:
            parts.append(POD_NUMBER)
        for size, reason in over_capacity.items():
            if ledger.shared.of_size((size,))[row]:
                parts.append(_cannot_afford(reason))
        return ", ".join(parts) or "node(s) have room for it, but not together with the others"

    def _with_prices(self, over_capacity: Mapping[int, JobReason]) -> Counter[str]:
        objections = self._count_objections()
        takes = (self.objection_codes() == 0) & self._ledger.fit(self._class)
        for size, reason in over_capacity.items():
            objections[_cannot_afford(reason)] += int(np.count_nonzero(takes & self._ledger.shared.of_size((size,))))
        if self._class.share is not None and self._class.share.memory_mib:
            del objections[short_of("gpu")]  # KAI never names nodes that are short of GPU memory alone
        return objections

    def objection_codes(self) -> ReasonCodes:
        """(node,): the first objection of a filter, 0 for none. Filters don't look at what nodes have too little of."""
        codes = self.static.codes
        for node_filter in self._moving:
            codes = np.where(codes == 0, node_filter.codes(self._class, EVERYWHERE), codes)
        return codes

    def _count_objections(self) -> Counter[str]:
        fine, objections = self._count_codes()
        names = self._context.snapshot.resource_names
        idle, releasing = self._ledger.idle, self._ledger.releasing
        needs = dict(self._class.needs)
        resources = sorted({*range(len(names)), *needs} - {PODS}) if self._ledger.overdrawn else list(needs)
        for resource in resources:
            amount = needs.get(resource, 0.0)
            short = int(np.count_nonzero(fine & (idle[resource] + releasing[resource] < amount)))
            objections[short_of(names[resource])] += short
        if self._class.share is not None:
            self._object_to_devices(objections, fine)
        objections[POD_NUMBER] += int(np.count_nonzero(fine & (idle[PODS] + releasing[PODS] < 1)))
        return objections

    def _count_codes(self) -> tuple[Mask, Counter[str]]:
        """Nodes without an objection of any filter, and the objections to the others, counted. Cached when all filters
        are static."""
        if self._lasting is not None:
            return self._lasting[0], self._lasting[1].copy()
        codes = self.objection_codes()
        objections: Counter[str] = Counter()
        fine: Mask = codes == 0
        if not fine.all():
            book = self._context.reason_book
            numbers, counts = np.unique(codes[~fine], return_counts=True)
            objections.update({book.text(int(n)): int(count) for n, count in zip(numbers, counts, strict=True)})
        if not self._moving:
            self._lasting = (fine, objections.copy())
        return fine, objections

    def _object_to_devices(self, objections: Counter[str], fine: Mask) -> None:
        share, ledger = self._class.share, self._ledger
        assert share is not None
        large_enough = ledger.shared.possible(share)
        there = np.floor(ledger.idle[GPU] + ledger.releasing[GPU]) + ledger.shared.count_fitting(share)
        objections[short_of("gpu")] += int(np.count_nonzero(fine & large_enough & (there < share.devices)))
        objections[short_of("gpu memory")] += int(np.count_nonzero(fine & ~large_enough))

    def catch_up(self) -> None:
        """Recomputes scores of the rows that changed since the last call.

        The ledger's log lists changed rows in order, so `_seen` is all that a view must remember. Three ways lead to
        the same floats: one row, an array of rows, all rows; the constants above say which is cheapest.
        """
        log = self._ledger.log
        seen, now = self._seen, len(log)
        if seen == now:
            return
        if seen < 0:
            self._total = self._room_for_scores()
            self._total_at = cells(self._total)
        inputs = self._current_inputs()
        # A changed global input (say, a minimum over all nodes) changes every node's score.
        if seen < 0 or inputs != self._inputs or (now - seen > FEW_CHANGES and not self._by_arrays):
            self._score(EVERYWHERE)
            self.renewals += 1
        elif now - seen == 1:
            self._renew(log[seen])
        elif len(rows := set(log[seen:])) > FEW_ROWS:
            # A slice costs far less than an index array, unless computing a row's score dominates.
            is_most = not self._by_arrays and len(rows) * MUCH_CHEAPER >= len(self.allowed)
            self._score(EVERYWHERE if is_most else np.fromiter(rows, np.intp, len(rows)))
        elif self._by_arrays:
            self._renew_together(rows)
        else:
            for row in rows:
                self._renew(row)
        self._inputs = inputs
        self._seen = now

    def _room_for_scores(self) -> Scores:
        return np.empty(len(self.allowed))

    def _current_inputs(self) -> list[Hashable]:
        return [each.global_inputs(self._class) for each in self._with_inputs] if self._with_inputs else self._inputs

    def _renew(self, row: NodeRow) -> None:
        self._renewed(row, self._score_one(row))

    def _renew_together(self, rows: set[NodeRow]) -> None:
        """The same as `_renew` for a few rows, where a scorer computes several rows at once."""
        fitting = [row for row in rows if self.takes(row)]
        if fitting:
            chosen = np.array(fitting, dtype=np.intp)
            known = [
                (scorer, scorer.scores(self._class, chosen).tolist() if scores is None and scorer.by_arrays else scores)
                for scorer, scores in self.scorers
            ]
            for position, row in enumerate(fitting):
                total = 0.0
                for scorer, scores in known:
                    if scores is None:
                        total += scorer.score(self._class, row)
                    else:
                        total += scores[position] if scorer.by_arrays else float(scores[row])
                self._renewed(row, total)
        for row in rows.difference(fitting):
            self._renewed(row, -math.inf)

    def _renewed(self, row: NodeRow, total: float) -> None:
        """Stores a row's score and keeps `_best`, the first maximum, true without a search where possible."""
        self._total_at[row] = total
        if self._best is None:
            return
        if row == self._best:
            # The best row got worse: another row may be the maximum now, so `best` searches again.
            self._best = row if total >= self._best_total else None
            self._best_total = total
        elif total > self._best_total or (total == self._best_total and row < self._best):
            self._best, self._best_total = row, total

    def _score(self, rows: Rows) -> None:
        """Computes the scores of rows: -inf where a filter objects or resources are missing."""
        self._best = None
        fits = self.allowed[rows] & self._ledger.fit(self._class, rows)
        for node_filter in self._moving:
            codes: ReasonCodes = node_filter.codes(self._class, rows)
            fits &= codes == 0
        if not fits.any():
            self._total[rows] = -math.inf
            return
        if self._by_arrays:
            self._score_fitting(rows, fits)
            return
        total = np.zeros(len(fits))
        for scorer, scores in self.scorers:
            total += scorer.scores(self._class, rows) if scores is None else scores[rows]
        self._total[rows] = np.where(fits, total, -math.inf)

    def _score_fitting(self, rows: Rows, fits: Mask) -> None:
        """The rest of `_score` for costly scorers: only nodes that fit are scored."""
        chosen = np.flatnonzero(fits) if isinstance(rows, slice) else rows[fits]
        total = np.zeros(len(chosen))
        for scorer, scores in self.scorers:
            total += scorer.scores(self._class, chosen) if scores is None else scores[chosen]
        self._total[rows] = -math.inf
        self._total[chosen] = total

    def _score_one(self, row: NodeRow) -> float:
        """The same as `_score` for one row, without the overhead of small arrays."""
        if not self._allowed_at[row] or not self._ledger.fits(self._class, row):
            return -math.inf
        if self._moving and self._is_refused(row):
            return -math.inf
        total = 0.0
        for scorer, scores in self.scorers:
            total += scorer.score(self._class, row) if scores is None else float(scores[row])
        return total


def goes_by_neighbours(each: NodeFilter | NodeScorer) -> bool:
    """Whether a filter or scorer names nodes that are exceptions: see `NodeFilter.exceptions`."""
    return type(each).exceptions not in (NodeFilter.exceptions, NodeScorer.exceptions)


def _has_global_inputs(each: NodeFilter | NodeScorer) -> bool:
    return type(each).global_inputs not in (NodeFilter.global_inputs, NodeScorer.global_inputs)
