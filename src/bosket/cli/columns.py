"""Rows of text in aligned columns, as kubectl prints them: for the everyday commands.

On a terminal a table fits its width: the columns that matter least are left out, and a name that is too long for the
first column stands in a line of its own. Nothing is cut. What belongs to a row and is a sentence stands below it,
wrapped. In a pipe every row is one line with all columns, the sentence last, so that grep and awk find what they look
for.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

#: Between two columns.
GAP = "  "
_INDENT = 4
#: So much of a line the first column keeps where it needs more, before other columns are left out.
_LEAST_FIRST = 24


@dataclass(frozen=True, slots=True)
class Column:
    """A column; of those that may be left out, the highest `leaves` goes first, 0 never goes."""

    name: str
    is_number: bool = False
    leaves: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """Cells, one for each column, and the sentence that belongs to them."""

    cells: Sequence[Text | str]
    sentence: str = ""
    sentence_style: str = "dim"


def lines(columns: Sequence[Column], rows: Sequence[Row], width: int | None, sentence: str = "WHY") -> Iterator[Text]:
    """The table as lines of at most `width`; None: as long as they are, with the sentences in a column of that name."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row.cells] for row in rows]
    widths = [
        max([cell_len(column.name), *(cell.cell_len for cell in (row[at] for row in cells))])
        for at, column in enumerate(columns)
    ]
    if width is None:
        has_sentences = any(row.sentence for row in rows)
        yield _line(columns, widths, [Text(column.name, "bold") for column in columns], sentence * has_sentences)
        for row, each in zip(rows, cells, strict=True):
            yield _line(columns, widths, each, row.sentence)
        return
    shown = _fitting(columns, widths, width)
    others = _total([widths[at] for at in shown[1:]]) + len(GAP) if len(shown) > 1 else 0
    widths[0] = min(widths[0], max(width - others, cell_len(columns[0].name)))
    kept, kept_widths = [columns[at] for at in shown], [widths[at] for at in shown]
    yield _line(kept, kept_widths, [Text(column.name, "bold") for column in kept])
    for row, each in zip(rows, cells, strict=True):
        first, rest = each[0], [each[at] for at in shown[1:]]
        if first.cell_len > widths[0]:
            yield first
            first = Text()
        yield _line(kept, kept_widths, [first, *rest])
        for part in textwrap.wrap(
            row.sentence, max(20, width - _INDENT), break_long_words=False, break_on_hyphens=False
        ):
            yield Text(" " * _INDENT + part, row.sentence_style)


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The columns that are shown, by their places. The first may take less than its widest cell."""
    shown = list(range(len(columns)))
    first = min(widths[0], _LEAST_FIRST)
    while _total([first, *(widths[at] for at in shown[1:])]) > width:
        at = max(shown, key=lambda each: (columns[each].leaves, each))
        if not columns[at].leaves:
            break
        shown.remove(at)
    return shown


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[Text], last: str = "") -> Text:
    line = Text()
    for at, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
        space = " " * (width - cell.cell_len)
        line.append(GAP if at else "")
        line.append_text(Text(space) + cell if column.is_number else cell + Text(space))
    if last:
        line.append(GAP + last)
    line.rstrip()
    return line
