"""Jobs of a trace: a CSV with a header and the columns timestamp, duration, num_gpus and cluster.

Read by `bosket simulate trace`; other columns are ignored. `cluster` may be missing: all jobs are then of one cluster.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from bosket.tools.simulate.document import InvalidDocument

COLUMNS: Final = ("timestamp", "duration", "num_gpus")
#: Of jobs in a trace without clusters.
ONLY_CLUSTER: Final = "all"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace: a gang that runs once."""

    name: str
    arrival: float  #: seconds since 1970
    duration_seconds: float
    gpus: int
    cluster: str
    limit_seconds: float | None = None  #: the run time that its user declares


def read_trace(text: str, clusters: Collection[str] = ()) -> list[TraceJob]:
    """The trace's jobs in order of arrival, of these clusters only where any are named.

    Raises `InvalidDocument` with the line and the column that are wrong.
    """
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidDocument(f"the first line must name the columns {', '.join(COLUMNS)}; {missing[0]} is missing")
    jobs: list[TraceJob] = []
    seen: set[str] = set()
    for row in reader:
        cluster = row.get("cluster") or ONLY_CLUSTER
        seen.add(cluster)
        if clusters and cluster not in clusters:
            continue
        line = f"line {reader.line_num}"
        gpus = _number(row["num_gpus"], f"{line}: num_gpus")
        if gpus != int(gpus) or gpus < 1:
            raise InvalidDocument(f"{line}: num_gpus is {row['num_gpus']!r}, it must be a whole number of 1 or more")
        duration = _number(row["duration"], f"{line}: duration")
        arrival = _time(row["timestamp"], f"{line}: timestamp")
        jobs.append(TraceJob(f"job-{reader.line_num:07d}", arrival, duration, int(gpus), cluster))
    unknown = sorted(set(clusters) - seen)
    if unknown:
        raise InvalidDocument(f"no job is of cluster {unknown[0]!r}; there are {', '.join(sorted(seen)) or 'none'}")
    return sorted(jobs, key=lambda job: (job.arrival, job.name))


def between(jobs: Iterable[TraceJob], start: float | None, days: float | None) -> list[TraceJob]:
    """The jobs that arrive from `start` (the first arrival by default) on, for so many days."""
    listed = list(jobs)
    if not listed:
        return listed
    begin = listed[0].arrival if start is None else start
    end = math.inf if days is None else begin + days * 86400
    return [job for job in listed if begin <= job.arrival < end]


def with_limits(jobs: Sequence[TraceJob], most_overestimate: float, seed: int) -> list[TraceJob]:
    """Each job with a declared run time: its duration, times a random factor between 1 and `most_overestimate`."""
    draw = random.Random(seed)  # noqa: S311 - a simulation, which is to be the same each time
    return [replace(job, limit_seconds=job.duration_seconds * draw.uniform(1.0, most_overestimate)) for job in jobs]


def _number(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise InvalidDocument(f"{where} is {text!r}, it must be a number") from None
    if not (math.isfinite(value) and value >= 0):
        raise InvalidDocument(f"{where} is {text!r}, it must be 0 or more")
    return value


def _time(text: str | None, where: str) -> float:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        raise InvalidDocument(f"{where} is {text!r}, it must be a time such as 2017-09-04 10:30:41") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
