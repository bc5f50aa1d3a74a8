"""What a benchmark measured: rows of figures, and the promises that they break.

Every benchmark gives back one `Report`; `python -m benchmarks` prints it as a table or as JSON, or puts it into pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

Figures = Mapping[str, Any]  #: of one row, by column


def number(decimals: int = 0, unit: str = "") -> Callable[[Any], str]:
    """Writes figures with so many decimals; what was not measured as a dash."""
    return lambda value: "–" if value is None else f"{value:,.{decimals}f}{unit}"


@dataclass(frozen=True)
class Column:
    """One column: the figures' name, its title, and how people like to read it."""

    name: str
    title: str
    show: Callable[[Any], str] = str


@dataclass
class Report:
    """Figures in rows, what to know about them, and what is not as promised."""

    title: str
    columns: tuple[Column, ...]
    rows: list[Figures] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    #: Tables that belong to it; what they promise is promised here.
    details: list[Report] = field(default_factory=list)

    def expect(self, holds: bool, promise: str) -> None:
        """Notes a promise that doesn't hold."""
        if not holds:
            self.broken.append(promise)

    def as_json(self) -> dict[str, Any]:
        own = {"title": self.title, "rows": self.rows, "notes": self.notes, "broken": self.broken}
        return {**own, "details": [each.as_json() for each in self.details]} if self.details else own

    def as_markdown(self) -> str:
        """Tables and notes, for a page; what is not as promised stands there, too."""
        titles = [column.title for column in self.columns]
        sides = ["---" if column.show is str else "--:" for column in self.columns]
        cells = [[column.show(row.get(column.name)) for column in self.columns] for row in self.rows]
        lines = [f"| {' | '.join(line)} |" for line in (titles, sides, *cells)]
        lines += [f"\n{note}" for note in self.notes]
        if self.broken:
            lines += ["\nNot as promised:\n", *(f"- {promise}" for promise in self.broken)]
        return "\n".join(
            ["\n".join(lines) + "\n", *(f"{each.title}:\n\n{each.as_markdown()}" for each in self.details)]
        )

    def print(self) -> None:
        table = Table(title=self.title, title_justify="left")
        for column in self.columns:
            table.add_column(column.title, justify="left" if column.show is str else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*(column.show(row.get(column.name)) for column in self.columns))
        # As wide as the figures are: a table that wraps can be read, one with figures cut off can't.
        wanted = Measurement.get(Console(width=1000), Console(width=1000).options, table).maximum
        width = max(wanted, Console().width if sys.stdout.isatty() else 160)
        console = Console(width=width, highlight=False)
        console.print(table)
        for note in self.notes:
            console.print(note, markup=False)
        for promise in self.broken:
            console.print(f"not as promised: {promise}", style="bold red", markup=False)
        console.print()
        for detail in self.details:
            detail.print()


def progress(text: str) -> None:
    """Says what is being measured, beside the results."""
    print(f"… {text}", file=sys.stderr, flush=True)
