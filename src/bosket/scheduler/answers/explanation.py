"""The answer of `bosket explain`, as plain data: what `--json` prints, field for field.

Made by `explain`; printed by the command, served by the scheduler's local server, read by programs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bosket.scheduler.answers.answer import Reason
from bosket.scheduler.answers.change import ObjectPatch

Verdict = Literal["never", "not-now", "waiting-for-termination", "next-cycle", "running"]
State = Literal["pending", "running", "pipelined", "evicted", "finished"]
Actor = Literal["user", "queue-admin", "cluster-admin", "time"]


class JobSummary(msgspec.Struct, frozen=True):
    """The job that the question is about."""

    namespace: str
    name: str
    queue: str
    priority: int
    state: State
    workload: str = ""  #: that owns the pod group, as Kind/name; the pod group's own name where nothing does


class JobAhead(msgspec.Struct, frozen=True):
    """A job that has its turn earlier."""

    namespace: str
    name: str
    why: str
    workload: str = ""


class Position(msgspec.Struct, frozen=True):
    """Where the job stands among those that wait in its queue; the first is 1."""

    in_queue: int
    of: int
    ahead: tuple[JobAhead, ...] = ()


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes that refuse the job's pods for the same reason."""

    reason: str
    count: int
    candidate: bool  #: whether they could take a pod if something left them
    examples: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """What one action did for the job."""

    action: str
    outcome: str
    searched: int = 0  #: sets of victims that were simulated
    cut_short: bool = False  #: whether the search ended because its budget was used up


class Blocker(msgspec.Struct, frozen=True):
    """A job that holds what this one needs."""

    namespace: str
    name: str
    queue: str
    resources: dict[str, float]
    why_not_evicted: str
    workload: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What the scheduler decides once a change is made."""

    starts: Literal["now", "after-evictions"]
    nodes: dict[str, str]  #: by pod
    evicts: tuple[str, ...] = ()  #: pods


class Change(msgspec.Struct, frozen=True):
    """A change after which the job starts, proved by a decision on the patched snapshot."""

    actor: Actor
    kind: str
    sentence: str
    patch: tuple[ObjectPatch, ...]
    then: Outcome
    verified: bool
    stepLessFails: bool | None  # noqa: N815 - a name on the wire
    commands: tuple[str, ...] = ()  #: which make the change
    made_in: str = ""  #: what is to be edited where no command makes it: the object that makes the pods


class Explanation(msgspec.Struct, frozen=True):
    """Why a job waits, and what would start it."""

    job: JobSummary
    verdict: (
        Verdict | None
    )  #: None where the reader's rights don't show enough: the sentence is then the scheduler's own
    sentence: str
    reason: Reason
    position: Position | None
    nodes: tuple[NodeGroup, ...]
    tried: tuple[Attempt, ...]
    blockers: tuple[Blocker, ...]
    changes: tuple[Change, ...]
    complete: bool
    snapshotDigest: str  # noqa: N815 - a name on the wire
    decides: int
    cpu_ms: float
