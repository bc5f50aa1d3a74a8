"""A snapshot: everything that `decide` may look at, as of one moment. Nothing in it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.resource import Shares
from bosket.scheduler.model.task import Task
from bosket.scheduler.snapshot.verdict import VerdictMemory


@dataclass(frozen=True, slots=True, eq=False)
class QueueUse:
    """What the jobs of one queue hold and want."""

    allocated: Shares
    non_preemptible: Shares
    requested: Shares  #: allocated, and what pending tasks ask for


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster at `now` (epoch seconds)."""

    now: float
    resource_names: tuple[str, ...]
    nodes: NodeTable
    #: by node name: all pods that hold resources there, of whichever scheduler, in order of their keys
    residents: Mapping[str, tuple[Task, ...]]
    queues: QueueTree
    jobs: Mapping[ObjectKey, Job]
    #: jobs with a task that isn't placed, or with one that needs a word said about it
    unsettled: tuple[Job, ...]
    #: jobs of which too little runs, and those that are marked so
    stale: tuple[Job, ...]
    use: Mapping[str, QueueUse]  #: by queue name, of the queue's own jobs only
    held: frozenset[ObjectKey] = frozenset()  #: jobs that wait because the binding of one of their pods failed
    #: bind requests that nobody will carry out: failed for good, or for a node that is gone
    dead_bind_requests: tuple[BindRequest, ...] = ()
    #: verdicts of pure functions, kept between snapshots
    memory: VerdictMemory = field(default_factory=VerdictMemory)
