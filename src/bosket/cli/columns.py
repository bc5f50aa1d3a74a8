"""Rows of text in aligned columns, as kubectl prints them: for the everyday commands.

On a terminal a table fits its width: the columns that matter least are left out, and a name that is too long for its
column stands in a line of its own. Nothing is cut. What belongs to a row and is a sentence stands below it,
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
#: So much of a line a column that folds keeps where it needs more, before other columns are left out.
_LEAST_FOLDED = 24


@dataclass(frozen=True, slots=True)
class Column:
    """A column; of those that may be left out, the highest `leaves` goes first, 0 never goes. What is too long for one
    that folds goes on in a line of its own."""

    name: str
    is_number: bool = False
    leaves: int = 0
    folds: bool = False


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
    kept, kept_widths = [columns[at] for at in shown], [widths[at] for at in shown]
    folding = next((at for at, column in enumerate(kept) if column.folds), None)
    if folding is not None:
        others = _total(kept_widths) - kept_widths[folding]
        kept_widths[folding] = min(kept_widths[folding], max(width - others, cell_len(kept[folding].name)))
    yield _line(kept, kept_widths, [Text(column.name, "bold") for column in kept])
    for row, each in zip(rows, cells, strict=True):
        line = [each[at] for at in shown]
        if folding is not None and line[folding].cell_len > kept_widths[folding]:
            name, line[folding] = line[folding], Text()
            before = kept_widths[:folding]
            if sum(before) + len(GAP) * folding + name.cell_len <= width:
                yield _line(kept[: folding + 1], [*before, 0], [*line[:folding], name])
                line[:folding] = [Text()] * folding
            else:
                yield Text(" " * min(_INDENT, max(0, width - name.cell_len))) + name
        yield _line(kept, kept_widths, line)
        for part in textwrap.wrap(
            row.sentence, max(20, width - _INDENT), break_long_words=False, break_on_hyphens=False
        ):
            yield Text(" " * _INDENT + part, row.sentence_style)


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The columns that are shown, by their places. One that folds may take less than its widest cell."""
    shown = list(range(len(columns)))
    least = [min(each, _LEAST_FOLDED) if column.folds else each for column, each in zip(columns, widths, strict=True)]
    while _total([least[at] for at in shown]) > width:
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
