"""`bosket eta`: when a job will start."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster, require_whole_cluster
from bosket.cli.explain import key_of
from bosket.cli.output import CommandError, Flag, UsageError, flush_line, printable, stdout
from bosket.cli.quantity_text import duration

if TYPE_CHECKING:
    from bosket.api.object import ObjectKey
    from bosket.scheduler.answers.eta import StartEstimate


def eta(
    job: str | None = None,
    /,
    *,
    source: SourceFlags | None = None,
    simulations: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 9,
    json: Flag = False,
) -> None:
    """Show when a job will start, by simulating the coming cycles with the scheduler's own decisions.

    Run times are those that users declare (bosket.dev/run-time-limit on the pod group, or activeDeadlineSeconds of the
    pods), or learned from jobs that have ended. Jobs that arrive later aren't foreseen. Nothing is written to the
    cluster.

    Parameters
    ----------
    job
        [NAMESPACE/]NAME of a pod group, or of a workload or pod that has one.
    simulations
        How many futures are simulated, each with other run times.
    json
        Print the answer as one JSON object.
    """
    from bosket.scheduler.answers.eta import Effort, estimate_start
    from bosket.scheduler.answers.explain import UnknownJob, find_job
    from bosket.scheduler.answers.workload_name import shown_names

    if job is None:
        raise UsageError("which job? bosket eta [NAMESPACE/]NAME")
    found = open_cluster(source)
    require_whole_cluster(found, "an estimate")
    cluster = found.cluster
    try:
        key = find_job(cluster, key_of(job, found.namespace))
    except UnknownJob as error:
        raise CommandError(str(error)) from error
    estimate = estimate_start(
        cluster.recorded.state(), cluster.configuration, cluster.now, key, Effort(simulations=simulations)
    )
    if json:
        import msgspec

        flush_line(msgspec.json.encode(answer(estimate, cluster.now)).decode())
    else:
        names = shown_names(job.group for job in cluster.snapshot().jobs.values())
        shown = {each: f"{each.namespace}/{name}" for each, name in names.items()}
        _print(shown.get(key, str(key)), estimate, cluster.now, shown)


def answer(estimate: StartEstimate, now: float) -> dict[str, Any]:
    """The contract's JSON: times as RFC 3339."""
    from bosket.api.time import format_time

    wait = estimate.wait
    times = (None,) * 3 if wait is None else tuple(format_time(now + each) for each in wait)
    return {
        "verdict": estimate.verdict,
        **dict(zip(("p10", "p50", "p90"), times, strict=True)),
        "basis": estimate.basis,
        "samples": estimate.samples,
        "coverage_last_150": None,
        "waits_for": [{"job": str(key), "ends_p50": format_time(end)} for key, end in estimate.waits_for],
    }


def _print(job: str, estimate: StartEstimate, now: float, shown: Mapping[ObjectKey, str]) -> None:

    def say(text: str) -> None:
        stdout().print(printable(text), markup=False)

    if estimate.wait is None:
        text = "has started already." if estimate.verdict == "running" else "starts at a time that nobody knows."
        say(f"{job} {text}")
        if estimate.verdict == "unknown":
            say("No simulation saw it start: it can't, or nobody knows how long the jobs run that are in its way.")
            say("Declare run times: the annotation bosket.dev/run-time-limit on pod groups (a duration such as 90m).")
        return
    if estimate.verdict == "next-cycle":
        say(f"{job} starts in the next cycle.")
        return
    low, middle, high = (_clock(now + each, now) for each in estimate.wait)
    say(
        f"{job} starts in about {duration(estimate.wait.middle)}, at {middle}; "
        f"between {low} and {high} in 8 of 10 simulated futures."
    )
    learned = f", learned from {estimate.samples} jobs that have ended" if estimate.basis == "learned" else ""
    say(f"Run times are {estimate.basis}{learned}; jobs that arrive later aren't foreseen.")
    for key, end in estimate.waits_for:
        say(f"  waits for {shown.get(key, str(key))}, which ends at about {_clock(end, now)}")


def _clock(seconds: float, now: float) -> str:
    """A time as people say it: without its date today."""
    then, today = time.localtime(seconds), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)
