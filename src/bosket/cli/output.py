"""How commands speak: tables and colour on a terminal, plain aligned text in a pipe, errors as one sentence.

Data goes to standard output, everything else to standard error, so that output can be piped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


LogFormat = Literal["human", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
#: An option that is given or not.
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
#: Unicode's category Cc (control characters) without the line feed.
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class CommandError(Exception):
    """A command can't do what was asked; the message is one sentence for the person who asked."""

    exit_code = 1


class UsageError(CommandError):
    """What was asked makes no sense."""

    exit_code = 2


def is_terminal() -> bool:
    """Whether a person looks at standard output as it comes."""
    return stdout().is_terminal


def stdout() -> Console:
    """Standard output; in a pipe without colour, and lines are as long as they are. NO_COLOR means no bold either."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        return Console(highlight=False, emoji=False, color_system=None) if console.no_color else console
    return Console(highlight=False, emoji=False, color_system=None, width=10_000)


def printable(text: str) -> str:
    """The text with "?" for each control character but the line feed. Whoever may write an event or an annotation
    chooses what is in it, escape sequences that steer the reader's terminal included."""
    return _CONTROL.sub("?", text)


def complain(message: str) -> None:
    """One line on standard error."""
    from rich.console import Console

    Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(
        f"bosket: {printable(message)}", style="red", markup=False
    )


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> Table:
    """A table for `stdout()`; the columns in `numbers` are aligned to the right, those in `texts` may be wrapped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    terminal = is_terminal()
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.ROUNDED if terminal else None,
        header_style="bold" if terminal else "",
        pad_edge=terminal,
        padding=(0, 1) if terminal else (0, 2, 0, 0),
    )
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in numbers else "left",
            no_wrap=column not in texts,
            overflow="fold" if column in texts else "ellipsis",
        )
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def flush_line(text: str = "") -> None:
    """A plain line that is out before anything else happens: for whoever waits for it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
