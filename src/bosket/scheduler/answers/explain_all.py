"""All jobs that wait, grouped by why: of a cluster, a namespace or a queue; and which one change would start the most.

One cycle is decided for all of them; whether a job could ever start is decided for each in the emptied cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.answer import Answer
from bosket.scheduler.answers.candidates.room import FREE_ROOM, WAIT
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import answer_in_emptied, chosen, explain
from bosket.scheduler.answers.explanation import Change
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.answers.trial import alone, emptied, start_of
from bosket.scheduler.answers.workload_name import workload_of
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot

#: So many jobs of a group are named.
MOST_EXAMPLES = 3
#: Of so many groups, the largest, changes are looked for.
MOST_GROUPS_ASKED = 4
#: Seconds of CPU for the changes of one of them.
SECONDS_A_GROUP = 2.0


class Example(msgspec.Struct, frozen=True):
    """A job that waits, and why."""

    namespace: str
    name: str
    verdict: str
    sentence: str
    workload: str  #: that owns the pod group, as Kind/name


class Group(msgspec.Struct, frozen=True):
    """Jobs that wait for the same reason."""

    code: str
    tier: str
    scope: str  #: the queue that is full, where it is one
    count: int
    pods: int
    gpus: float
    verdicts: dict[str, int]
    examples: tuple[Example, ...]


class Unblocking(msgspec.Struct, frozen=True):
    """A change, and the jobs that start by it and otherwise wouldn't."""

    change: Change
    job: str  #: the one for which it was found
    starts: tuple[str, ...]


class Waiters(msgspec.Struct, frozen=True):
    """All jobs that wait, by reason."""

    jobs: int
    groups: tuple[Group, ...]
    unblocks_most: Unblocking | None
    complete: bool  #: whether every change that was found was tried on all of them
    snapshotDigest: str  # noqa: N815 - a name on the wire
    decides: int
    cpu_ms: float


def explain_all(
    cluster: Cluster,
    *,
    namespace: str | None = None,
    queue: str | None = None,
    seconds: float | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Waiters:
    """Why all jobs wait that the next cycle leaves waiting, those of a namespace or of a queue and all below it.

    `seconds`: of CPU, after which no more changes are tried; 0 for none.
    """
    began, decides_before = clock(), cluster.decides
    snapshot = cluster.snapshot()
    decisions = cluster.decide(snapshot)
    mine = [
        each
        for each in decisions.waiting
        if (namespace is None or each.job.key.namespace == namespace)
        and (queue is None or _is_below(snapshot, each.job.queue, queue))
        and start_of(decisions, each.job.key) is None
    ]
    sentences = Sentences(snapshot, decisions)
    never = _never(cluster, [each.job for each in mine])
    by_reason: dict[tuple[str, str, str], list[tuple[Job, Example]]] = {}
    for each in mine:
        key = each.job.key
        answer = chosen(never.get(key), sentences.of(each))
        if answer is None:
            continue
        reason = answer.reason
        scope = reason.scope if reason.tier in ("queue", "fairness") else ""
        verdict = "never" if key in never else "not-now"
        example = Example(key.namespace, key.name, verdict, answer.sentence, "/".join(workload_of(each.job.group)))
        by_reason.setdefault((reason.code, reason.tier, scope), []).append((each.job, example))
    found = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    groups = tuple(_group(*reason, members) for reason, members in found)
    best: Unblocking | None = None
    complete = seconds != 0
    if complete:
        asked = [members[0][0].key for _, members in found[:MOST_GROUPS_ASKED]]
        best, complete = _unblocks_most(cluster, decisions, asked, seconds, lambda: clock() - began)
    return Waiters(
        jobs=sum(group.count for group in groups),
        groups=groups,
        unblocks_most=best,
        complete=complete,
        snapshotDigest=cluster.digest(),
        decides=cluster.decides - decides_before,
        cpu_ms=round((clock() - began) * 1000, 1),
    )


def _is_below(snapshot: Snapshot, name: str, queue: str) -> bool:
    """Whether a queue is the other one, or below it."""
    tree = snapshot.queues
    if name == queue or name not in tree.rows:
        return name == queue
    return any(tree.queues[row].name == queue for row in tree.paths[tree.rows[name]])


def _never(cluster: Cluster, jobs: list[Job]) -> dict[ObjectKey, Answer | None]:
    """Jobs that couldn't start if nobody else were there, and why not."""
    emptied_cluster = emptied(cluster, jobs)
    snapshot = emptied_cluster.snapshot()
    found: dict[ObjectKey, Answer | None] = {}
    for job in jobs:
        decisions = alone(emptied_cluster, snapshot, job.key)
        if start_of(decisions, job.key) is None:
            found[job.key] = answer_in_emptied(snapshot, decisions, job.key)
    cluster.decides += emptied_cluster.decides
    return found


def _group(code: str, tier: str, scope: str, members: list[tuple[Job, Example]]) -> Group:
    tasks = [task for job, _ in members for pod_set in job.pod_sets for task in pod_set.tasks if not task.node]
    return Group(
        code=code,
        tier=tier,
        scope=scope,
        count=len(members),
        pods=len(tasks),
        gpus=round(sum(task.pod_class.charge[0] for task in tasks), 3),
        verdicts=dict(Counter(example.verdict for _, example in members)),
        examples=tuple(example for _, example in members[:MOST_EXAMPLES]),
    )


def _unblocks_most(
    cluster: Cluster, decisions: Decisions, asked: Iterable[ObjectKey], seconds: float | None, used: Callable[[], float]
) -> tuple[Unblocking | None, bool]:
    """Of the changes for these jobs, that after which most jobs start; whether all of them were tried."""
    before = _starting(decisions)
    best: Unblocking | None = None
    complete = True
    for key in asked:
        if seconds is not None and used() > seconds:
            return best, False
        answer = explain(cluster, key, seconds=SECONDS_A_GROUP, decided=decisions)
        complete = complete and answer.complete
        for change in answer.changes:
            if change.kind in (FREE_ROOM, WAIT):
                continue  # the more end, the more can start: that says nothing about what is set up wrong
            with cluster.changed(change.patch) as snapshot:
                starts = tuple(sorted(map(str, _starting(cluster.decide(snapshot)) - before)))
            if best is None or len(starts) > len(best.starts):
                best = Unblocking(change, str(key), starts)
    return best, complete


def _starting(decisions: Decisions) -> set[ObjectKey]:
    jobs = {each.job.key for each in decisions.binds} | {each.job.key for each in decisions.pipelined}
    return {key for key in jobs if start_of(decisions, key) is not None}
