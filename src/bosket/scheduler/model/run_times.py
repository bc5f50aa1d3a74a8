"""Run times of jobs that have ended, by kind of job: what estimates are made of.

A job that declares how long it runs at most is remembered by the part of that time which it took, any other job by its
seconds. The live state records what ends; snapshots, recordings and the scheduler's memory carry it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from bosket.api.keys import USER_LABEL
from bosket.scheduler.model.job import Job

#: Fewer samples than that say nothing about a kind: a more general one is asked.
LEAST_SAMPLES: Final = 12
#: Fewer samples than that of all jobs together say nothing at all.
LEAST_OF_ALL: Final = 5
#: What names end in that tell runs of the same workload apart: numbers, and the random letters of controllers.
_RUN: Final = re.compile(r"([-_.]?[0-9a-f]*\d[0-9a-z]*)+$")

Level = tuple[str, ...]  #: some of what a kind of job has in common, with a word for which part of it


class JobKind(msgspec.Struct, frozen=True, array_like=True):
    """What jobs have in common that tend to run for about as long."""

    queue: str
    workload: str  #: the kind of the workload that owns the pod group
    name: str  #: of the workload, without what tells one run from the next
    user: str
    size: int  #: the number of its GPUs, rounded down to a power of two
    is_declared: bool  #: whether it says how long it runs at most

    def levels(self) -> Iterator[Level]:
        """From the most special to the most general."""
        unit, size = "part" if self.is_declared else "seconds", str(self.size)
        yield (unit, "kind", self.queue, self.workload, self.name, self.user, size)
        yield (unit, "user", self.queue, self.user, size)
        yield (unit, "queue", self.queue, size)
        yield (unit, "size", size)
        yield (unit,)


class EndedJob(msgspec.Struct, frozen=True, array_like=True):
    """One job that has ended."""

    kind: JobKind
    amount: float  #: seconds; of one that declared a run time, the part of it


class Known(NamedTuple):
    """What is known about jobs like one job."""

    level: Level
    amounts: tuple[float, ...]  #: of those that have ended, the latest last


@dataclass(frozen=True, slots=True, eq=False)
class RunTimes:
    """All that is remembered of jobs that have ended."""

    amounts: Mapping[Level, tuple[float, ...]] = field(default_factory=dict)

    def of(self, kind: JobKind) -> Known | None:
        """The most special level with enough samples."""
        found: Known | None = None
        for level in kind.levels():
            amounts = self.amounts.get(level, ())
            if len(amounts) >= LEAST_SAMPLES:
                return Known(level, amounts)
            found = Known(level, amounts)
        return found if found is not None and len(found.amounts) >= LEAST_OF_ALL else None


NO_RUN_TIMES: Final = RunTimes()


@lru_cache(maxsize=8192)
def _without_run(name: str) -> str:
    return _RUN.sub("", name)


def kind_of(job: Job, *, is_declared: bool) -> JobKind:
    """The kind of a job, by its pod group and its pods."""
    meta = job.group.metadata
    owner = meta.ownerReferences[0] if meta.ownerReferences else None
    gpus = int(sum(task.pod_class.charge[0] for task in job.tasks))
    return JobKind(
        queue=job.queue,
        workload=owner.kind if owner is not None else "",
        name=_without_run(owner.name if owner is not None else meta.name),
        user=meta.labels.get(USER_LABEL, ""),
        size=1 << (gpus.bit_length() - 1) if gpus else 0,
        is_declared=is_declared,
    )
