"""`bosket simulate trace`: what a policy would have made of the jobs of a trace."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, stdout, table
from bosket.cli.path import FilePath, OptionalFilePath

if TYPE_CHECKING:
    from bosket.scheduler.configuration.configuration import Configuration
    from bosket.tools.simulate.trace.figures import Figures
    from bosket.tools.simulate.trace.job import TraceJob
    from bosket.tools.simulate.trace.policy import Policy
    from bosket.tools.simulate.trace.run import Outcome, Progress

_AtLeastOne = Annotated[int, Parameter(validator=Number(gte=1))]
_Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())]
#: Random numbers are the same each time, so that two policies are compared on the same jobs.
_SEED = 42


def trace(
    file: FilePath,
    /,
    *,
    gpus: _AtLeastOne,
    gpus_per_node: _AtLeastOne = 8,
    rack_size: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    cluster: _Names = (),
    days: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    start: str | None = None,
    quota: _Names = (),
    policy: Literal["greedy", "backfill", "fifo"] = "greedy",
    backfill: _Names = (),
    limits: str | None = None,
    eta: Annotated[int, Parameter(validator=Number(gte=0))] = 100,
    chart: OptionalFilePath = None,
    json: Flag = False,
) -> None:
    """Run the jobs of a trace in virtual time, decided on by the scheduler itself.

    Each job is a gang that starts as a whole and runs once, for its duration.

    Parameters
    ----------
    file
        A CSV with the columns timestamp, duration (seconds), num_gpus, and cluster if there are several.
    gpus
        GPUs of the simulated cluster.
    gpus_per_node
        GPUs of a node; a job takes as many whole nodes as it fills, and a part of another one. With the number of all
        GPUs there is a single node, and GPUs are all that counts.
    rack_size
        Nodes of a rack; a gang that fits into a rack must then be in one.
    cluster
        Only jobs of these clusters of the trace.
    days
        Only jobs that arrive in so many days.
    start
        The first day of these (2017-11-01); by default that of the first job.
    quota
        NAME=GPUS: each cluster of the trace gets a queue of its own, with so many GPUs as its quota (0 for clusters
        that aren't named).
    policy
        greedy: whoever fits is placed, the oldest first. backfill: the same, with nodes held for large gangs that have
        waited for long. fifo: nobody is placed while an older job of the queue waits.
    backfill
        NAME=VALUE: arguments of the plugin backfill: largeGPUs, after, reservations, preemptible.
    limits
        The run times that users declare: exact, or the most by which they are overestimated (3: each is the duration
        times a random number between 1 and 3). By default nobody declares any.
    eta
        For how many jobs at most, evenly among all, the start is estimated when they arrive and have to wait.
    chart
        Draw waits, use and shares into this SVG file.
    json
        Print the figures as one JSON object.
    """
    from bosket.tools.simulate.document import InvalidDocument
    from bosket.tools.simulate.trace.cluster import ClusterShape
    from bosket.tools.simulate.trace.figures import figures
    from bosket.tools.simulate.trace.job import between, read_trace, with_limits
    from bosket.tools.simulate.trace.run import replay

    if chart is not None and chart.suffix.lower() != ".svg":
        raise UsageError(f"--chart {chart}: charts are drawn as SVG, name a file that ends in .svg")
    try:
        jobs = between(read_trace(file.read_text(encoding="utf-8"), cluster), _moment(start), days)
    except OSError as error:
        raise UsageError(f"{file}: can't read it: {error.strerror or error}") from error
    except (InvalidDocument, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not jobs:
        raise UsageError(f"{file}: no job arrives at that time")
    if limits is not None:
        jobs = with_limits(jobs, _overestimate(limits), _SEED)
    configuration = _configuration(policy, backfill)
    shape = ClusterShape(gpus, gpus_per_node, rack_size, _quotas(quota, jobs))
    began = time.process_time()
    outcome = replay(jobs, shape, configuration, _progress(len(jobs)), estimates=eta)
    found = figures(outcome, policy=policy, gpus=gpus, cpu_seconds=time.process_time() - began)
    if chart is not None:
        _draw(outcome, chart, f"{len(jobs)} jobs on {gpus} GPUs, {policy}", gpus)
    if json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found, gpus)


def _moment(start: str | None) -> float | None:
    from datetime import UTC, datetime

    if start is None:
        return None
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        raise UsageError(f"--start {start}: it must be a day or a time, such as 2017-11-01") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _overestimate(limits: str) -> float:
    try:
        most = 1.0 if limits == "exact" else float(limits)
    except ValueError:
        most = 0.0
    if not 1.0 <= most < float("inf"):
        raise UsageError(f"--limits {limits}: it must be exact, or a number of 1 or more")
    return most


def _configuration(policy: Policy, backfill: Sequence[str]) -> Configuration:
    from bosket.scheduler.configuration.configuration import ConfigurationError
    from bosket.scheduler.plugins.backfill import ARGUMENTS, Backfill
    from bosket.tools.simulate.trace.policy import configuration_of

    if backfill and policy != "backfill":
        raise UsageError(f"--backfill has no effect with --policy {policy}")
    arguments = {name: value for name, _, value in (each.partition("=") for each in backfill)}
    for name in arguments:
        if name not in ARGUMENTS:
            raise UsageError(f"--backfill {name}: the plugin's arguments are {', '.join(ARGUMENTS)}")
    try:
        Backfill(arguments)
    except ConfigurationError as error:
        raise UsageError(f"--backfill: {error}") from error
    return configuration_of(policy, arguments)


def _quotas(given: Sequence[str], jobs: Sequence[TraceJob]) -> dict[str, float]:
    quotas: dict[str, float] = {}
    clusters = {job.cluster for job in jobs}
    for each in given:
        name, _, amount = each.partition("=")
        try:
            quotas[name] = float(amount)
        except ValueError:
            raise UsageError(f"--quota {each}: it must be NAME=GPUS, such as 7f04ca=64") from None
        if not 0 <= quotas[name] < float("inf"):
            raise UsageError(f"--quota {each}: a quota is 0 or more")
        if name not in clusters:
            raise UsageError(f"--quota {each}: no job is of cluster {name!r}; there are {', '.join(sorted(clusters))}")
    return quotas


def _progress(jobs: int) -> Progress:
    """Where a person looks at standard error, how many jobs have ended."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return lambda _: None
    shown = -1

    def show(ended: int) -> None:
        nonlocal shown
        if (part := 100 * ended // jobs) != shown:
            shown = part
            console.print(f"{part} % of {jobs} jobs have ended", end="\r" if ended < jobs else "\n")

    return show


def _draw(outcome: Outcome, file: FilePath, title: str, gpus: int) -> None:
    from bosket.tools.simulate.trace.chart import draw

    try:
        file.write_text(draw(outcome, title=title, gpus=gpus), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--chart {file}: can't write it: {error.strerror or error}") from error


def _print(found: Figures, gpus: int) -> None:
    names = {"all": "all", "lt8": "below 8 GPUs", "8to31": "8 to 31 GPUs", "ge32": "32 GPUs and more"}
    rows = [
        (names[size], str(waits.n), *(_hours(value) for value in (waits.mean, waits.p50, waits.p95)))
        for size, waits in found.wait_hours.items()
    ]
    columns = ("jobs", "number", "mean", "half below", "95 % below")
    stdout().print(table(f"Hours that jobs waited, {found.policy}", columns, rows, numbers=columns[1:]))
    stdout().print(
        f"{found.use:.1%} of {gpus} GPUs were in use over {found.makespan_hours:,.0f} hours; "
        f"{found.decisions:,} decisions, {found.cpu_s:g} s of CPU."
    )
    if found.policy == "backfill":
        stdout().print(f"{found.delayed_reservations} jobs started later than was once reserved for them.")
    if found.evicted:
        stdout().print(f"{found.evicted} evictions threw away {found.lost_gpu_hours:,.0f} GPU hours of work.")
    if found.eta.asked:
        stdout().print(
            f"{found.eta.coverage80:.0%} of {found.eta.asked} start estimates held (80 % were to); "
            f"half were wrong by less than {_hours(found.eta.median_abs_error_hours)} hours, "
            f"where half of the jobs waited less than {_hours(found.eta.median_wait_hours)}."
        )
    if found.never_started:
        stdout().print(f"{found.never_started} jobs never started: the cluster is too small for them.")


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
