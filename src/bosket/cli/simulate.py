"""`bosket simulate`: what queues would get, once (`fairshare`) or over time (`time`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, is_terminal, stdout, table
from bosket.cli.path import FilePath, OptionalFilePath

if TYPE_CHECKING:
    from bosket.runtime.local_server import Answer
    from bosket.tools.simulate.chart import Series
    from bosket.tools.simulate.scenario import Scenario
    from bosket.tools.simulate.timeline import Point

#: Standard input, or output.
_STANDARD = Path("-")
#: A file, or `-`, which looks like an option and isn't one.
_Input = Annotated[FilePath, Parameter(allow_leading_hyphen=True)]
_Output = Annotated[OptionalFilePath, Parameter(alias="-o", allow_leading_hyphen=True)]
_AtLeastZero = Annotated[float, Parameter(validator=Number(gte=0))]
_Port = Annotated[int | None, Parameter(validator=Number(gte=0, lte=65535))]


def fairshare(
    file: _Input = _STANDARD,
    /,
    *,
    k: Annotated[_AtLeastZero, Parameter(name="--k")] = 1.0,
    json: Flag = False,
    serve: _Port = None,
) -> None:
    """Divide resources among queues, once, as the scheduler does.

    Parameters
    ----------
    file
        A request in the format of KAI's fair-share simulator: totalResource, and queues with uid, priority,
        resourceShare. Beyond it, parentQueue makes a tree of any depth, and usage, beside deserved and request, is the
        part of the cluster that a queue used in the past. By default, standard input.
    k
        How strongly use in the past lowers the share of today; 0 is not at all.
    json
        Print KAI's answer also on a terminal, where otherwise a table is shown.
    serve
        Answer POST /simulate at this port of 127.0.0.1 instead; 0 takes a free one.
    """
    from bosket.tools.simulate.document import InvalidDocument
    from bosket.tools.simulate.fairshare import simulate

    if serve is not None:
        asyncio.run(_serve(serve, k))
        return
    try:
        shares = simulate(_read(file), k, lambda problem: complain(f"{_name(file)}: {problem}"))
    except InvalidDocument as error:
        raise UsageError(f"{_name(file)}: {error}") from error
    if json or not is_terminal():
        flush_line(_answer(shares).decode())
        return
    rows = [(uid, *(f"{share[name]:g}" for name in ("gpu", "cpu", "memory"))) for uid, share in shares.items()]
    columns = ("queue", "GPU", "CPU", "memory")
    stdout().print(table(f"Fair share, k = {k:g}", columns, rows, numbers=columns[1:]))


def _answer(shares: dict[str, dict[str, float]]) -> bytes:
    """As Go writes it: whole numbers without a point."""
    import msgspec

    plain = {
        uid: {name: int(amount) if amount.is_integer() else amount for name, amount in share.items()}
        for uid, share in shares.items()
    }
    return msgspec.json.encode(plain)


async def _serve(port: int, k: float) -> None:
    from bosket.runtime.local_server import Answer, LocalPages, serve_local
    from bosket.runtime.service import stop_on_signals
    from bosket.tools.simulate.document import InvalidDocument
    from bosket.tools.simulate.fairshare import simulate

    async def answer(posted: bytes) -> Answer:
        try:
            return Answer(_answer(simulate(posted, k, lambda _: None)))
        except InvalidDocument as error:
            return Answer(f"{error}\n".encode(), "text/plain", 400)

    pages = LocalPages()
    pages.add_form("/simulate", answer)
    with stop_on_signals():
        async with serve_local(pages, port) as url:
            flush_line(f"ready: POST {url}/simulate")
            await asyncio.get_running_loop().create_future()


def over_time(
    file: _Input = _STANDARD,
    /,
    *,
    output: _Output = None,
    chart: OptionalFilePath = None,
) -> None:
    """Let queues compete for thousands of cycles in virtual time, decided on by the scheduler itself.

    Parameters
    ----------
    file
        A scenario in the format of KAI's time-based fair-share simulator: Cycles, WindowSize, HalfLifePeriod, KValue,
        Nodes, Queues, Jobs. By default, standard input.
    output
        Where the CSV goes, with what each queue held and its fair share after each cycle; by default standard output,
        unless that is a terminal, where a summary is shown.
    chart
        Draw both over time into this SVG file.
    """
    from bosket.tools.simulate.document import InvalidDocument
    from bosket.tools.simulate.scenario import read_scenario

    if chart is not None and chart.suffix.lower() != ".svg":
        raise UsageError(f"--chart {chart}: charts are drawn as SVG, name a file that ends in .svg")
    try:
        text = _read(file).decode()
        scenario = read_scenario(text, lambda problem: complain(f"{_name(file)}: {problem}"))
        points = _run(scenario)
    except UnicodeDecodeError as error:
        raise UsageError(f"{_name(file)}: not UTF-8") from error
    except InvalidDocument as error:
        raise UsageError(f"{_name(file)}: {error}") from error
    series = _series(scenario, points)
    if chart is not None:
        _draw(scenario, series, chart)
    if output is None and is_terminal():
        _print_summary(scenario, series)
    else:
        _write(points, output or _STANDARD)


def _run(scenario: Scenario) -> list[list[Point]]:
    """The cycles; a person at a terminal sees how far it is."""
    from rich.console import Console
    from rich.progress import track

    from bosket.tools.simulate.timeline import run

    console = Console(stderr=True)
    cycles = run(scenario)
    if not console.is_terminal:
        return list(cycles)
    return list(track(cycles, "cycles", total=scenario.cycles, console=console, transient=True))


def _series(scenario: Scenario, points: list[list[Point]]) -> dict[str, Series]:
    """Of the queues that hold jobs; those above them are their sums."""
    from bosket.tools.simulate.chart import Series

    places = {queue.name: place for place, queue in enumerate(scenario.queues)}
    return {
        name: Series(
            [cycle[places[name]].allocation for cycle in points], [cycle[places[name]].fair_share for cycle in points]
        )
        for name in scenario.leaves
    }


def _draw(scenario: Scenario, series: dict[str, Series], file: Path) -> None:
    from bosket.tools.simulate.chart import draw

    half_life = f", half-life {scenario.half_life:g}" if scenario.half_life else ""
    title = (
        f"{scenario.gpus} GPUs over {scenario.cycles} cycles: k = {scenario.k:g}, window {scenario.window}{half_life}"
    )
    with _named_errors(f"--chart {file}"):
        file.write_text(draw(series, title=title, gpus=scenario.gpus, window=scenario.window), encoding="utf-8")


def _write(points: list[list[Point]], file: Path) -> None:
    from bosket.tools.simulate.timeline import write_csv

    every = (point for cycle in points for point in cycle)
    if file == _STANDARD:
        write_csv(every, sys.stdout)
        return
    with _named_errors(f"--output {file}"), file.open("w", encoding="utf-8", newline="") as out:
        write_csv(every, out)


def _print_summary(scenario: Scenario, series: dict[str, Series]) -> None:
    rows = [
        (
            name,
            f"{mean(each.allocation):.2f}",
            f"{mean(each.allocation) / (scenario.gpus or 1):.0%}",
            f"{mean(each.fair_share):.2f}",
            str(sum(before != after for before, after in pairwise(each.allocation))),
        )
        for name, each in series.items()
    ]
    columns = ("queue", "GPUs held", "of the cluster", "fair share", "changes")
    title = f"{scenario.cycles} cycles, k = {scenario.k:g}: means, and changes of what is held"
    stdout().print(table(title, columns, rows, numbers=columns[1:]))
    stdout().print("-o FILE writes every cycle as CSV, --chart FILE.svg draws them.")


def _read(file: Path) -> bytes:
    if file == _STANDARD:
        return sys.stdin.buffer.read()
    if str(file).startswith("-"):
        raise UsageError(f"Unknown option: {file} (see bosket simulate --help)")
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: can't read it: {error.strerror or error}") from error


def _name(file: Path) -> str:
    return "standard input" if file == _STANDARD else str(file)


@contextmanager
def _named_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(f"{what}: can't write it: {error.strerror or error}") from error
