"""Something about an object and what to do about it, as `bosket doctor` and `bosket migrate` print it.

On a terminal each stands in lines of its own: commands can be copied then, because nothing stands beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.markup import escape
from rich.padding import Padding

from bosket.cli.output import printable, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console


class Advice(NamedTuple):
    """One piece of it; without a remedy there is nothing to do."""

    word: str  #: how it is meant, in a word
    object: str
    field: str
    text: str
    remedy: str
    command: str


def print_table(console: Console, columns: Sequence[str], advice: Iterable[Advice]) -> None:
    """A row for each."""
    rows = [(*each[:4], f"{each.remedy}: {each.command}".removeprefix(": ").removesuffix(": ")) for each in advice]
    console.print(table("", columns, rows))


def print_block(console: Console, each: Advice, styles: Mapping[str, str], call: str) -> None:
    """What, where and why in lines of their own, beside the word; `call` stands before the remedy."""
    each = Advice(*map(printable, each))
    style, indent = styles[each.word], max(map(len, styles)) + 2
    console.print(
        f"[{style}]{each.word:<{indent}}[/{style}][bold]{escape(each.object)}[/bold]  [dim]{escape(each.field)}[/dim]"
    )
    console.print(Padding(escape(each.text), (0, 0, 0, indent), expand=False))
    if each.remedy:
        console.print(Padding(f"[green]{call}:[/green] {escape(each.remedy)}", (0, 0, 0, indent), expand=False))
    if each.command:
        console.print(f"{' ' * indent}$ {each.command}", style="dim", markup=False, soft_wrap=True)
