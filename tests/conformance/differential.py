"""Runs one recorded cycle of KAI's scheduler on ours, and compares the two answers.

The rules are sections 3 and 4 of the cases' own SCHEMA.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bosket.scheduler.answers.outcome import PodState, answer, states
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import QUEUE_RESOURCES, QueueAmounts
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ALLOCATED, TaskStatus
from bosket.scheduler.recording.recorded import read
from tests.conformance.deviation import promised_in_vain, runs, without_deviations
from tests.conformance.verdict import Outcome
from tests.scheduler import rules

Json = dict[str, Any]

#: Any time between 2021 and 2090 gives the same answer.
NOW = 1.75e9
TOLERANCE = 1e-4
#: Shares beyond this have no digits left for the tolerance.
LARGE = 1e6


def judge(case: Json) -> tuple[Outcome, list[str]]:
    """How our answer to the case relates to KAI's, and what differs."""
    recorded = read(msgspec.json.encode(case["snapshot"]), case["id"])
    snapshot = recorded.snapshot(NOW)
    configuration, _ = known_part(recorded.configuration)
    decisions = decide(snapshot, configuration)
    expected, got = case["expected"], _with_neutral_names(answer(snapshot, decisions), snapshot)
    found = list(differences(expected, got))
    if not found:
        return Outcome.SAME, []
    ends = states(snapshot, decisions)
    if not any(differences(*without_deviations(expected, got, snapshot, ends))):
        return Outcome.BETTER, found
    if _is_better(expected, snapshot, decisions) or _is_leaner(expected, snapshot, decisions):
        return Outcome.BETTER, found
    return Outcome.DIFFERENT, found


def _with_neutral_names(got: Json, snapshot: Snapshot) -> Json:
    """GPUs that were opened for sharing are called after the first pod on them."""
    known = {name for groups in snapshot.nodes.devices.groups.values() for name in groups}
    placed = sorted((*got["binds"], *got["pipelined"]), key=lambda entry: str(entry["pod"]))
    first: dict[str, str] = {}
    for entry in placed:
        for name in entry.get("gpuGroups", ()):
            if name not in known:
                first.setdefault(name, f"new:{entry['pod']}")
    for entry in placed:
        if "gpuGroups" in entry:
            entry["gpuGroups"] = sorted(first.get(name, name) for name in entry["gpuGroups"])
    return got


def differences(expected: Json, got: Json) -> Iterator[str]:
    """What differs: decisions first, then devices and causes, then pod groups and fair shares."""
    yield from _compare("bind of", _last(expected["binds"], "node"), _last(got["binds"], "node"))
    yield from _compare("eviction of", _last(expected["evictions"]), _last(got["evictions"]))
    yield from _compare("pipeline of", _last(expected["pipelined"], "node"), _last(got["pipelined"], "node"))
    gpu = ("type", "gpuCount", "gpuPortion", "gpuGroups")
    yield from _compare("GPUs of bound", _last(expected["binds"], *gpu), _last(got["binds"], *gpu))
    cause = ("action", "preemptor")
    yield from _compare("cause of evicting", _last(expected["evictions"], *cause), _last(got["evictions"], *cause))
    groups = ("action", "gpuGroups")
    yield from _compare("GPUs of pipelined", _last(expected["pipelined"], *groups), _last(got["pipelined"], *groups))
    yield from _compare("pod group", expected["podGroups"], got["podGroups"])
    for queue, shares in expected["fairShare"].items():
        for resource, share in shares.items():
            ours = got["fairShare"].get(queue, {}).get(resource)
            if ours is None or abs(share - ours) > TOLERANCE * max(1.0, abs(share) / LARGE):
                yield f"fair share of {queue}, {resource}: expected {share:g}, got {ours}"


def _last(entries: list[Json], *fields: str) -> dict[str, Any]:
    """By pod; of a pod that was decided on twice the last entry."""
    return {entry["pod"]: [entry.get(field) for field in fields] for entry in entries}


def _compare(what: str, expected: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(expected.keys() | got.keys()):
        if expected.get(key) != got.get(key):
            yield f"{what} {key}: expected {expected.get(key)}, got {got.get(key)}"


def _is_better(expected: Json, snapshot: Snapshot, decisions: Decisions) -> bool:
    """Whether nobody is worse off and somebody is better: every gang that KAI runs runs, whomever KAI gives pods to has
    as many, no more are evicted, and either fewer are, or the same ones fewer times, or more are placed, and no rule is
    broken. Evicting only whom KAI evicts too is how min-runtime and fairness of reclaim are known to hold; who is moved
    by a consolidation is subject to neither."""
    theirs = {entry["pod"] for entry in expected["evictions"]}
    ends = states(snapshot, decisions)
    moved = {
        str(each.task.key)
        for each in decisions.evictions
        if each.action == "consolidation" and ends[each.task.key].status == TaskStatus.PIPELINED
    }
    ours = {str(eviction.task.key) for eviction in decisions.evictions}
    if len(ours) > len(theirs) or not ours - moved <= theirs:
        return False
    their_ends = _their_ends(expected, snapshot)
    placed = their_placed = 0
    for job in snapshot.jobs.values():
        our_active = {task.key for task in job.tasks if ends[task.key].status in ACTIVE_ALLOCATED}
        their_active = {
            task.key for task in job.tasks if their_ends.get(str(task.key), task.status) in ACTIVE_ALLOCATED
        }
        placed += len(our_active)
        their_placed += len(their_active)
        served = any(their_ends.get(str(task.key)) in ACTIVE_ALLOCATED for task in job.tasks)
        if served and len(our_active) < len(their_active):
            return False
        if runs(job.root, their_active) and not runs(job.root, our_active):
            return False
    fewer = (len(ours), len(decisions.evictions)) < (len(theirs), len(expected["evictions"]))
    gain = placed > their_placed or (placed == their_placed and fewer)
    return gain and not any(_broken_rules(snapshot, decisions))


def _is_leaner(expected: Json, snapshot: Snapshot, decisions: Decisions) -> bool:
    """Whether victims were chosen better by the rules of docs/deviations.md (nobody in vain, the fewest pods).

    Whoever waits has as many pods as KAI gives him, no fewer run in all, no rule is broken, and either fewer pods with
    less work go, those that KAI leaves alone in the place of others of the same queue and priority; or
    the same pods go, and some preemptor takes fewer of them, because only a later one needs the others.
    """
    theirs = {entry["pod"]: entry.get("preemptor") for entry in expected["evictions"]}
    ours = {str(each.task.key): each.preemptor for each in decisions.evictions}
    their_ends, ends = _their_ends(expected, snapshot), states(snapshot, decisions)
    placed, work, spared, instead = 0, 0.0, set[tuple[str, int]](), set[tuple[str, int]]()
    for job in snapshot.jobs.values():
        difference = 0
        for task in job.tasks:
            name, right = str(task.key), (job.queue, job.priority)
            difference += ends[task.key].status in ACTIVE_ALLOCATED
            difference -= their_ends.get(name, task.status) in ACTIVE_ALLOCATED
            if (name in ours) != (name in theirs):
                (instead if name in ours else spared).add(right)
                gpu_seconds = (NOW - max(job.history.last_started or 0.0, task.created)) * task.pod_class.charge[0]
                work += gpu_seconds if name in ours else -gpu_seconds
        if difference < 0 and (job.has_pending or ours.keys() == theirs.keys()):
            return False
        placed += difference
    if placed < 0 or any(_broken_rules(snapshot, decisions)):
        return False
    if ours.keys() == theirs.keys():
        first = Counter(str(each.key) for each in ours.values() if each is not None)
        return any(first[name] < count for name, count in Counter(theirs.values()).items() if name is not None)
    fair = instead <= spared
    return len(ours) < len(theirs) and work < 0 and fair


def _their_ends(expected: Json, snapshot: Snapshot) -> dict[str, TaskStatus]:
    """What became of the pods that KAI decided on. One that was placed and evicted later in the cycle is in all lists:
    its pod group's counts tell what happened last."""
    evicted = dict.fromkeys((entry["pod"] for entry in expected["evictions"]), TaskStatus.RELEASING)
    result = evicted | {entry["pod"]: TaskStatus.BINDING for entry in expected["binds"]}
    result |= {entry["pod"]: TaskStatus.PIPELINED for entry in expected["pipelined"]}
    for pod in promised_in_vain(expected, snapshot):
        del result[pod]
    for job in snapshot.jobs.values():
        counts = expected["podGroups"].get(str(job.key), {}).get("pods", {})
        placed = [str(task.key) for task in job.tasks if result.get(str(task.key)) in ACTIVE_ALLOCATED]
        if len(placed) > counts.get("Binding", 0) + counts.get("Pipelined", 0):
            result |= {pod: TaskStatus.RELEASING for pod in placed if pod in evicted}
    return result


def _broken_rules(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Rules that an answer breaks, checked without the scheduler's own accounts. What is broken before isn't held
    against it: a gang of which somebody is already going, a queue that holds too much and gets no more."""
    ends = states(snapshot, decisions)
    yield from rules.nodes_given_more_than_they_have(snapshot, decisions)
    yield from rules.gpus_given_more_than_once(snapshot, decisions)
    yield from rules.pods_on_nodes_that_refuse_them(snapshot, decisions)
    yield from rules.parts_outside_one_domain(snapshot, decisions)
    tree = snapshot.queues
    before, after = _Held.of(snapshot, states(snapshot, Decisions())), _Held.of(snapshot, ends)
    for job in snapshot.jobs.values():
        counts = Counter(ends[task.key].status for task in job.tasks)
        if any(counts[status] for status in (TaskStatus.BINDING, TaskStatus.PIPELINED)):
            active = {task.key for task in job.tasks if ends[task.key].status in ACTIVE_ALLOCATED}
            was_active = {task.key for task in job.tasks if task.status in ACTIVE_ALLOCATED}
            if not runs(job.root, active) and (active - was_active or runs(job.root, was_active)):
                yield f"pod group {job.key} runs below its minimum"
    for row, queue in enumerate(tree.queues):
        if any(_exceeds(queue.limit, before.total[row], after.total[row])):
            yield f"queue {queue.name} is over its limit"
        if any(_exceeds(queue.quota, before.firm[row], after.firm[row])):
            yield f"queue {queue.name} holds more non-preemptible work than its quota"


def _exceeds(bound: QueueAmounts, before: np.ndarray, after: np.ndarray) -> Iterator[bool]:
    """For each resource, whether it was given more of than the bound allows."""
    for most, had, has in zip(bound, before, after, strict=True):
        yield most != UNLIMITED and has > most and has > had


class _Held(NamedTuple):
    """What queues hold, (queue, resource): all of it, and by jobs that aren't preemptible."""

    total: np.ndarray
    firm: np.ndarray

    @classmethod
    def of(cls, snapshot: Snapshot, ends: Mapping[Any, PodState]) -> _Held:
        tree = snapshot.queues
        held = cls(
            np.zeros((len(tree.queues), len(QUEUE_RESOURCES))), np.zeros((len(tree.queues), len(QUEUE_RESOURCES)))
        )
        for job in snapshot.jobs.values():
            _charge(job, ends, snapshot, held)
        return held


def _charge(job: Job, ends: Mapping[Any, PodState], snapshot: Snapshot, held: _Held) -> None:
    tree, table = snapshot.queues, snapshot.nodes
    row = tree.rows.get(job.queue)
    if row is None:
        return
    for task in job.tasks:
        end = ends[task.key]
        if end.status in ALLOCATED | {TaskStatus.PIPELINED} and end.node in table.rows:
            cost = task.pod_class.charge_on(table.devices.sizes[table.rows[end.node]])
            held.total[list(tree.paths[row])] += cost
            if not job.preemptible:
                held.firm[list(tree.paths[row])] += cost
