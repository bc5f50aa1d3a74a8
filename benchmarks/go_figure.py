"""What the Go scheduler costs on the same workloads: the tables of `perf/kai.md`, read when asked.

"CPU ms of one cycle" has a column for each number of nodes; the section on workloads as they come in practice has a row
for each call of its generator, and a sentence with figures of the same run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

HEADING = "## CPU ms of one cycle"
PRACTICE_HEADING = "## Workloads as they come in practice"
STACK_HEADING = "## The Go stack end to end"
SCALE_HEADING = "## KAI's own published scale run"
#: The row with the cost of dividing fair shares, at some number of queues.
FAIR_SHARE = "fair share alone"
#: The column that says how costs grow with the number of nodes.
EXPONENT = "exponent in N"

Table = dict[str, dict[str, str]]  #: workload → column → cell


class GoFigure(NamedTuple):
    """Milliseconds as they are written there, such as `4,700–5,100`; `low` is the smallest of them, if there is one."""

    text: str
    low: float | None


UNKNOWN = GoFigure("–", None)


@dataclass(frozen=True)
class GoFigures:
    """All figures of single cycles."""

    by_nodes: Table
    by_call: dict[str, GoFigure]  #: such as `mixed n=100 pending=400`, or the first word of a row that is no call

    def cost(self, row: str, call: str, nodes: int) -> GoFigure:
        """One cycle of a workload: of this very call, or the row's on so many nodes."""
        return self.by_call.get(call) or for_nodes(self.by_nodes, row, nodes)

    def exponent(self, row: str) -> str:
        """How its costs grow with the number of nodes, as it is written there."""
        return self.by_nodes.get(row, {}).get(EXPONENT, "")


def read_figures(document: Path) -> GoFigures:
    """Both tables of single cycles. Raises ValueError when the document lacks one."""
    return GoFigures(read_table(document), _read_calls(document))


def read_table(document: Path) -> Table:
    """The cells of the table by numbers of nodes. Raises ValueError when the document has no such table."""
    columns, _, *rows = _cells(document, HEADING)
    return {row[0]: dict(zip(columns[1:], row[1:], strict=False)) for row in rows}


def for_nodes(table: Table, workload: str, nodes: int) -> GoFigure:
    """What one cycle of the workload costs on so many nodes.

    Where that wasn't measured, it follows from the largest number of nodes that was, by the exponent in the table.
    """
    row = table.get(workload, {})
    measured = _by_nodes(row)
    if nodes in measured:
        return measured[nodes]
    exponent = re.match(r"[\d.]+", row.get(EXPONENT, ""))
    known = {size: figure.low for size, figure in measured.items() if figure.low is not None and size < nodes}
    if exponent is None or not known:
        return UNKNOWN
    largest = max(known)
    estimate = known[largest] * (nodes / largest) ** float(exponent[0])
    return GoFigure(f"~{estimate:,.0f}", estimate)


def _by_nodes(row: dict[str, str]) -> dict[int, GoFigure]:
    """What was measured, by number of nodes: that of the column, or one that stands in the cell itself."""
    found: dict[int, GoFigure] = {}
    for column, cell in row.items():
        own = re.fullmatch(r"N=(\d+): (.+)", cell)
        size = own[1] if own else column.removeprefix("N=")
        figure = _figure(own[2] if own else cell)
        if size.isdigit() and figure is not UNKNOWN:
            found[int(size)] = figure
    return found


def for_queues(table: Table, queues: int) -> GoFigure:
    """What dividing shares among so many queues costs."""
    cells = table.get(FAIR_SHARE, {}).values()
    return next((_figure(cell) for cell in cells if cell.endswith(f"at {queues:,} queues")), UNKNOWN)


def _read_calls(document: Path) -> dict[str, GoFigure]:
    """Figures by the generator's call. A row may have several sizes, as many as figures: `antiaff n=100`, `n=500`."""
    found: dict[str, GoFigure] = {}
    for row in _cells(document, PRACTICE_HEADING)[2:]:
        calls = re.findall(r"`([^`]+)`", row[0]) or [row[0].partition(",")[0]]
        kind = calls[0].partition(" ")[0]
        for call, figure in zip(calls, row[1].split(" / "), strict=False):
            name = call if call.startswith(kind) else f"{kind} {call}"
            if _figure(figure) is not UNKNOWN:
                found[name] = _figure(figure)
    beside = re.search(r"fairshare ([\d,]+) full cycle ([\d,]+) / ", _section(document, PRACTICE_HEADING))
    if beside:
        found[f"fairshare leaves={beside[1].replace(',', '')}"] = _figure(beside[2])
    return found


def read_results(document: Path, heading: str) -> dict[str, str]:
    """The table below a heading: what was measured → result. Raises ValueError when there is none."""
    return {row[0]: row[1] for row in _cells(document, heading)[2:]}


def _cells(document: Path, heading: str) -> list[list[str]]:
    """The table below a heading: its titles, the line below them, its rows. Raises ValueError when there is none."""
    lines = [line for line in _section(document, heading).splitlines() if line.startswith("|")]
    if len(lines) < 3:
        raise ValueError(f"{document}: there is no table below {heading!r}")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _section(document: Path, heading: str) -> str:
    return document.read_text().partition(heading)[2].split("\n## ")[0]


def _figure(cell: str) -> GoFigure:
    """The first figure of a cell; `> 165,000` is a lower bound and counts as the figure."""
    found = re.match(r"(> )?([\d,]*\d)(–[\d,]*\d)?", cell)
    return UNKNOWN if found is None else GoFigure(found[0], float(found[2].replace(",", "")))
