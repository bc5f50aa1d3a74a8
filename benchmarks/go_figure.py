"""What the Go scheduler needs for the same work: the table "CPU ms of one cycle" of `perf/kai.md`, read when asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

HEADING = "## CPU ms of one cycle"
STACK_HEADING = "## The Go stack end to end"
SCALE_HEADING = "## KAI's own published scale run"
#: The row that tells what dividing shares costs, at some number of queues.
FAIR_SHARE = "fair share alone"
#: The column that tells how costs grow with the number of nodes.
EXPONENT = "exponent in N"

Table = dict[str, dict[str, str]]  #: workload → column → cell


class GoFigure(NamedTuple):
    """Milliseconds as they are written there, such as `4,700–5,100`; `low` is the smallest of them, if there is one."""

    text: str
    low: float | None


UNKNOWN = GoFigure("–", None)


def read_table(document: Path) -> Table:
    """The table's cells. Raises ValueError when the document has no such table."""
    _, heading, rest = document.read_text().partition(f"{HEADING}\n")
    lines = [line for line in rest.split("\n## ")[0].splitlines() if line.startswith("|")]
    if not heading or len(lines) < 3:
        raise ValueError(f"{document}: there is no table below {HEADING!r}")
    columns, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(columns[1:], row[1:], strict=False)) for row in rows}


def for_nodes(table: Table, workload: str, nodes: int) -> GoFigure:
    """What one cycle of the workload costs on so many nodes.

    Where that wasn't measured, it follows from the largest number of nodes that was, by the exponent in the table.
    """
    row = table.get(workload, {})
    measured = _by_nodes(row)
    if nodes in measured:
        return measured[nodes]
    exponent = re.fullmatch(r"([\d.]+)(–[\d.]+)?", row.get(EXPONENT, ""))
    known = {size: figure.low for size, figure in measured.items() if figure.low is not None and size < nodes}
    if exponent is None or not known:
        return UNKNOWN
    largest = max(known)
    estimate = known[largest] * (nodes / largest) ** float(exponent[1])
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


def _figure(cell: str) -> GoFigure:
    found = re.match(r"[\d,]+", cell)
    if found is None:
        return UNKNOWN
    return GoFigure(cell.partition(" ")[0], float(found[0].replace(",", "")))


def read_results(document: Path, heading: str) -> dict[str, str]:
    """The table below a heading: what was measured → result. Raises ValueError when there is none."""
    _, found, rest = document.read_text().partition(heading)
    lines = [line for line in rest.split("\n## ")[0].splitlines() if line.startswith("|")]
    if not found or len(lines) < 3:
        raise ValueError(f"{document}: there is no table below {heading!r}")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {row[0]: row[1] for row in rows}
