"""How everyday commands show a cluster: once, again and again, as lines for people, or as JSON.

A command makes an answer of a `Source`, which is data, and lines of that answer. `show` does the rest: it reads the
cluster, prints, and with --watch does so again until it is interrupted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeVar

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import Source, SourceFlags, open_cluster
from bosket.cli.failure import failure_of
from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, printable, stdout

if TYPE_CHECKING:
    from rich.text import Text

A = TypeVar("A")
#: What stands for a character where standard output has none like it.
_ASCII: Final = {"█": "#", "▓": "+", "░": ".", "│": "|", "∞": "inf", "…": "...", "·": ".", "½": "%", "↳": ">"}


@Parameter(name="*", group=Group("Output", sort_key=3))
@dataclass(frozen=True, slots=True)
class ViewFlags:
    """How it is shown.

    Parameters
    ----------
    output
        wide: all columns, and lines as long as they are.
    json
        Print everything as one JSON object; with --watch one in each line.
    watch
        Show it again and again, until interrupted.
    every
        With --watch: seconds from one time to the next.
    """

    output: Annotated[Literal["wide"] | None, Parameter(name=("--output", "-o"))] = None
    json: Flag = False
    watch: Annotated[bool, Parameter(name=("--watch", "-w"), negative=(), show_default=False)] = False
    every: Annotated[float, Parameter(validator=Number(gte=0.1))] = 5.0

    @property
    def is_wide(self) -> bool:
        return self.output == "wide"


def line_width(flags: ViewFlags) -> int | None:
    """What lines must fit in; None where they may be as long as they are: in a pipe, and with -o wide."""
    console = stdout()
    return console.width if console.is_terminal and not flags.is_wide else None


class Readable(Protocol):
    """What was read, and how much of it was readable."""

    @property
    def unread(self) -> Mapping[str, str]: ...

    @property
    def is_limited(self) -> bool: ...

    @property
    def unserved(self) -> frozenset[str]: ...

    @property
    def namespace(self) -> str: ...


S = TypeVar("S", bound=Readable)


def show(
    source_flags: SourceFlags | None,
    flags: ViewFlags,
    answer: Callable[[Source], A],
    lines: Callable[[A], Iterable[Text | str]],
    data: Callable[[A], Any] = lambda answer: answer,
    *,
    needs: Collection[str] = (),
) -> None:
    """Reads the cluster and prints the answer: as lines, or with --json as `data` gives it."""
    show_what_is_read(source_flags, flags, read=open_cluster, answer=answer, lines=lines, data=data, needs=needs)


def show_what_is_read(
    source_flags: SourceFlags | None,
    flags: ViewFlags,
    *,
    read: Callable[[SourceFlags | None], S],
    answer: Callable[[S], A],
    lines: Callable[[A], Iterable[Text | str]],
    data: Callable[[A], Any] = lambda answer: answer,
    needs: Collection[str] = (),
) -> None:
    """The same of what `read` reads. `needs`: kinds of which at least some objects must be readable."""
    from bosket.kube.errors import KubeError

    if flags.watch and source_flags is not None and source_flags.is_recorded:
        raise UsageError(
            "--watch: a snapshot file or a moment doesn't change; leave --watch out, or --snapshot and --at"
        )
    source = read(source_flags)
    _check_readable(source, needs)
    say_what_is_unknown(source)
    _print(answer(source), flags, lines, data)
    while flags.watch:
        time.sleep(flags.every)
        try:
            source = read(source_flags)
        except KubeError as error:  # said, and tried again: the server may be back soon
            complain(failure_of(error).text)
            continue
        _print(answer(source), flags, lines, data)


def _check_readable(source: Readable, needs: Collection[str]) -> None:
    from bosket.tools.live_cluster import ONLY_NAMESPACE

    for kind in needs:
        if kind in source.unserved:
            raise CommandError(
                f"the cluster doesn't know {_PLURALS[kind]}: neither Bosket nor KAI is installed there "
                f"(bosket crds --install makes it know them, and docs/install.md tells the rest)"
            )
        if kind in source.unread and not source.unread[kind].startswith(ONLY_NAMESPACE):
            raise CommandError(
                f"you may not read {_PLURALS[kind]}, neither everywhere nor in namespace {source.namespace} "
                f"(-n names another one): {source.unread[kind]}"
            )


def say_what_is_unknown(source: Readable) -> None:
    """One line on standard error about what the caller's rights don't show."""
    kinds = [kind for kind in ("Node", "Queue", "Pod", "PodGroup") if kind in source.unread]
    if not kinds:
        return
    limited = [kind for kind in kinds if source.is_limited and kind in ("Pod", "PodGroup")]
    unknown = [_PLURALS[kind] for kind in kinds if kind not in limited]
    parts = []
    if limited:
        parts.append(f"only namespace {source.namespace} is shown, because your rights end there")
    if unknown:
        parts.append(f"your rights don't show {' and '.join(unknown)}")
    complain("; ".join(parts))


_PLURALS: Final = {"Node": "nodes", "Queue": "queues", "Pod": "pods", "PodGroup": "pod groups"}


def print_lines(lines: Iterable[Text | str]) -> None:
    """Lines on standard output, never wrapped or cut; in ASCII where it knows nothing else, and without control
    characters."""
    console = stdout()
    for line in lines:
        console.print(_encodable(harmless(line)), soft_wrap=True, overflow="ignore", no_wrap=True, markup=False)


def _print(found: A, flags: ViewFlags, lines: Callable[[A], Iterable[Text | str]], data: Callable[[A], Any]) -> None:
    if flags.json:
        import msgspec

        flush_line(msgspec.json.encode(data(found)).decode())
        return
    made = list(lines(found))
    console = stdout()
    if flags.watch and console.is_terminal:
        console.clear()
    if flags.watch:
        print_lines([time.strftime("%H:%M:%S"), ""])
    print_lines(made)
    if flags.watch and not console.is_terminal:
        print_lines([""])
    sys.stdout.flush()


def harmless(line: Text | str) -> Text | str:
    """The line as `printable` makes it, with the styles that it has."""
    if isinstance(line, str):
        return printable(line)
    shown = line.copy()
    shown.plain = printable(line.plain)  # as long as before: styles stay where they are
    return shown


def _encodable(line: Text | str) -> Text | str:
    text = line if isinstance(line, str) else line.plain
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        for character, plain in _ASCII.items():
            text = text.replace(character, plain)
        return text.encode("ascii", "replace").decode()
    return line
