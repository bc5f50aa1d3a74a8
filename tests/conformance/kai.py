"""Runs KAI's own scheduling tests on our scheduler: sessions, rounds, and the match that gives the verdict.

The rules (procedure, what is carried over from round to round, what must match) are sections 4 and 5 of the cases' own
SCHEMA.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from bosket.scheduler.answers.outcome import states, status_name
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline, Waiting
from bosket.scheduler.model.gpu_group import groups_of
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, amounts_of
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import WAITING, Task, TaskStatus
from bosket.scheduler.recording.recorded import Recorded
from tests.conformance.kai_claims import Claims, claims_after
from tests.conformance.kai_cluster import (
    ALLOCATED,
    NOW,
    PLACED,
    PodNow,
    claims_at_first,
    has_started,
    pod_keys,
    pods_at_first,
    record,
    shares_gpu,
)
from tests.conformance.kai_numa import free_after, zones_after

Json = dict[str, Any]

#: What follows from a state that a round decided on.
SEVERAL_REASONS = "Unable to schedule podgroup"  #: what KAI's detailed text begins with then
AFTER_ROUND = {"Binding": "Running", "Pipelined": "Pending"}
STATUS_OF = {Bind: TaskStatus.BINDING, Eviction: TaskStatus.RELEASING, Pipeline: TaskStatus.PIPELINED}


@dataclass(frozen=True, slots=True)
class Session:
    """A snapshot of the case's cluster, what was decided on it, and where every pod stands then."""

    snapshot: Snapshot
    decisions: Decisions
    before: Mapping[str, PodNow]
    pods: Mapping[str, PodNow]
    waiting: Mapping[str, Waiting]  #: by pod group; of the round before in a session without actions


def differences(case: Json) -> list[str]:
    """What doesn't match; none when the case passes."""
    rounds = case["rounds"]
    pods, claims = pods_at_first(case), claims_at_first(case)
    if rounds["mode"] == "single":
        session = _run(case, pods, claims)
        return [*_calls(case, session), *_mismatches(case, session)]
    found: list[str] = []
    last: Session | None = None
    for number in range(rounds["untilMatch"]):
        last = _run(case, pods, claims)
        found += [f"round {number + 1}: {text}" for text in _calls(case, last)]
        pods, claims = _carry_over(case, last), claims_after(last.decisions, claims)
    found += [f"then: {text}" for text in _mismatches(case, _look(case, pods, claims, last))]
    for number in range(rounds["afterMatch"]):
        session = _run(case, pods, claims)
        found += [f"round {rounds['untilMatch'] + number + 1}: {text}" for text in _calls(case, session)]
        found += [f"round {rounds['untilMatch'] + number + 1}: {text}" for text in _mismatches(case, session)]
        pods, claims = _carry_over(case, session), claims_after(session.decisions, claims)
    return found


def _run(case: Json, pods: Mapping[str, PodNow], claims: Claims) -> Session:
    recorded = record(case, pods, claims)
    snapshot = _snapshot(case, recorded, pods)
    configuration, _ = known_part(recorded.configuration)
    decisions = decide(snapshot, configuration)
    waiting = {each.job.key.name: each for each in decisions.waiting}
    return Session(snapshot, decisions, pods, _pods_after(case, snapshot, decisions, pods), waiting)


def _snapshot(case: Json, recorded: Recorded, pods: Mapping[str, PodNow]) -> Snapshot:
    """No Kubernetes object says that a pod waits for room that it was promised: that is put in by hand."""
    state = recorded.state()
    tasks = state._tasks
    for name, key in pod_keys(case).items():
        now = pods[name]
        if now.status == "Pipelined":
            task = tasks.get(key)
            assert task is not None
            changes = {"status": TaskStatus.PIPELINED, "node": now.node, "gpu_groups": now.gpu_groups}
            tasks._set(key, task, structs.replace(task, **changes))
    return state.snapshot(NOW)


def _look(case: Json, pods: Mapping[str, PodNow], claims: Claims, last: Session | None) -> Session:
    """A session in which nothing is done."""
    snapshot = _snapshot(case, record(case, pods, claims), pods)
    nothing = Decisions()
    after = _pods_after(case, snapshot, nothing, pods)
    return Session(snapshot, nothing, pods, after, last.waiting if last else {})


def _pods_after(case: Json, snapshot: Snapshot, decisions: Decisions, pods: Mapping[str, PodNow]) -> dict[str, PodNow]:
    ends = states(snapshot, decisions)
    result = {}
    for name, key in pod_keys(case).items():
        end = ends.get(key)
        if end is None:
            result[name] = pods[name]
            continue
        # Some cases name a node even for a pod that waits; it goes on naming it.
        node = pods[name].node if end.status in WAITING else end.node
        result[name] = PodNow(status_name(end.status), node, end.gpu_groups or pods[name].gpu_groups)
    return result


def _carry_over(case: Json, session: Session) -> dict[str, PodNow]:
    result = {}
    for group in case["cluster"]["podGroups"]:
        for pod in group["pods"]:
            before, after = session.before[pod["name"]], session.pods[pod["name"]]
            status = AFTER_ROUND.get(after.status or "", after.status)
            if after.status == "Releasing" and not group["keepReleasingBetweenRounds"]:
                status = "Pending"
            if status == "Pending":
                node = after.node if after.status == "Pending" else ""
                result[pod["name"]] = PodNow(status, node, before.gpu_groups)
            else:
                result[pod["name"]] = PodNow(status, after.node, after.gpu_groups)
    return result


def _calls(case: Json, session: Session) -> Iterator[str]:
    decisions = session.decisions
    made = {"bind": decisions.binds, "evict": decisions.evictions, "pipeline": decisions.pipelined}
    for kind, most in case["expected"]["maxCallsPerRound"].items():
        if len(made[kind]) > most:
            yield f"{kind} calls: at most {most}, got {len(made[kind])}"


def _mismatches(case: Json, session: Session) -> Iterator[str]:
    expected = case["expected"]
    groups = {group["name"]: group for group in case["cluster"]["podGroups"]}
    home = {pod["name"]: group for group in groups.values() for pod in group["pods"]}
    for name, wanted in expected["podGroups"].items():
        pods = groups[name]["pods"]
        yield from (f"pod group {name}: {text}" for text in _group_mismatches(groups[name], wanted, session, case))
        yield from (f"pod {pod['name']}: {text}" for pod in pods for text in _place(pod, wanted, session))
    for name, wanted in expected["pods"].items():
        if name not in home:
            continue
        pod = next(each for each in home[name]["pods"] if each["name"] == name)
        yield from (f"pod {name}: {text}" for text in _place(pod, wanted, session))
        yield from (f"pod {name}: {text}" for text in _amounts([pod], wanted, session, case))
        yield from (f"pod {name}: {text}" for text in _last_start(home[name], wanted, session))
    for name, wanted in expected["nodes"].items():
        yield from (f"node {name}: {text}" for text in _node_mismatches(name, wanted, session))
    for assertion in expected["assertions"]:
        yield from _assertion(assertion, groups, session)


def _group_mismatches(group: Json, wanted: Json, session: Session, case: Json) -> Iterator[str]:
    yield from _amounts(group["pods"], wanted, session, case)
    yield from _last_start(group, wanted, session)
    if wanted.get("numaZones") is not None:
        for pod in group["pods"]:
            zones = zones_after(session.snapshot, session.decisions, pod["name"])
            if zones != sorted(wanted["numaZones"]):
                yield f"NUMA zones of {pod['name']}: expected {wanted['numaZones']}, got {zones}"
    if wanted.get("fitErrorMessage") is not None:
        got = _fit_error(group["name"], session)
        # Pods of some cases have no namespace, which we leave out where KAI writes nothing and a slash.
        if got != re.sub(r"(?<=[ <])/(?=\w)", "", wanted["fitErrorMessage"]):
            yield f"fit error: expected {wanted['fitErrorMessage']!r}, got {got!r}"


def _place(pod: Json, wanted: Json, session: Session) -> Iterator[str]:
    got = session.pods[pod["name"]]
    if wanted["status"] is not None and got.status != wanted["status"]:
        yield f"expected {wanted['status']}, got {got.status}{f' on {got.node}' if got.node else ''}"
    elif wanted["nodeName"] is not None and got.node != wanted["nodeName"]:
        yield f"expected on {wanted['nodeName']}, got {got.node or 'no node'}"


def _amounts(pods: list[Json], wanted: Json, session: Session, case: Json) -> Iterator[str]:
    tasks = {task.key.name: task for job in session.snapshot.jobs.values() for task in (*job.tasks, *job.orphan_tasks)}
    requests = [tasks[pod["name"]].pod_class.request for pod in pods if pod["name"] in tasks]
    got = {
        "gpusRequested": sum(_gpus_requested(pod, tasks[pod["name"]]) for pod in pods if pod["name"] in tasks),
        "gpusAccepted": sum(_gpus_accepted(pod, session, case) for pod in pods),
        "cpuMillisRequested": sum(float(request[CPU]) for request in requests),
        "memoryBytesRequested": sum(float(request[MEMORY]) for request in requests),
    }
    for name, amount in got.items():
        if wanted.get(name) is not None and amount != wanted[name]:
            yield f"{name}: expected {wanted[name]:g}, got {amount:g}"


def _gpus_requested(pod: Json, task: Task) -> float:
    """Whole GPUs and fractions count; GPU memory, MIG instances and claimed devices don't."""
    if pod["gpuMemoryMiB"] is not None or pod.get("resourceClaims"):
        return 0.0
    return 0.0 if any("/mig-" in name for name in pod["requests"]) else task.pod_class.charge[0]


def _gpus_accepted(pod: Json, session: Session, case: Json) -> float:
    now = session.pods[pod["name"]]
    if now.status not in PLACED:
        return 0.0
    if not shares_gpu(pod):
        return float(pod["requests"].get("nvidia.com/gpu", 0))
    memory = next(node["gpuMemoryMiB"] for node in case["cluster"]["nodes"] if node["name"] == now.node)
    part = pod["gpuFraction"] if pod["gpuFraction"] is not None else pod["gpuMemoryMiB"] / memory
    return float(part) * (pod["gpuDevices"] or 1)


def _last_start(group: Json, wanted: Json, session: Session) -> Iterator[str]:
    if wanted["status"] not in ALLOCATED:
        return
    started = any(job.key.name == group["name"] for job in session.decisions.started)
    if not started and not has_started(group, session.before):
        yield "it has no last start"
    least = wanted.get("lastStartAgeAtLeastSeconds")
    if least is not None and started and least > 0:
        yield f"last start: expected {least} s ago or more, got now"


def _node_mismatches(name: str, wanted: Json, session: Session) -> Iterator[str]:
    nodes = session.snapshot.nodes
    row = nodes.rows[name]
    there = {task: (task.status, task.gpu_groups) for task in session.snapshot.residents.get(name, ())}
    for each in session.decisions.operations:
        if each.node == name:
            groups = there[each.task][1] if isinstance(each, Eviction) else each.gpu_groups
            there[each.task] = (STATUS_OF[type(each)], groups)
    tasks = [structs.replace(task, status=status, gpu_groups=groups) for task, (status, groups) in there.items()]
    _, effect = groups_of(sorted(tasks, key=lambda task: task.key), nodes.devices.sizes[row])
    idle, releasing = float(nodes.allocatable[GPU, row]) + effect.idle, float(effect.releasing)
    for task in tasks:
        gpus = float(task.pod_class.request[GPU])
        idle -= gpus * (task.status != TaskStatus.PIPELINED)
        releasing += gpus * ((task.status == TaskStatus.RELEASING) - (task.status == TaskStatus.PIPELINED))
    for what, got in (("idleGPUs", idle), ("releasingGPUs", releasing)):
        if wanted.get(what) is not None and got != wanted[what]:
            yield f"{what}: expected {wanted[what]:g}, got {got:g}"
    for zone, amounts in (wanted.get("numaZonesAvailable") or {}).items():
        free = free_after(session.snapshot, session.decisions, name, int(zone))
        for resource, amount in amounts_of(amounts).items():
            if free[resource] != amount:
                yield f"NUMA zone {zone}: expected {amount} of {resource}, got {free[resource]}"


def _assertion(assertion: Json, groups: Mapping[str, Json], session: Session) -> Iterator[str]:
    what = f"{assertion['kind']} of {assertion.get('podGroup') or assertion.get('pod')}"
    match assertion:
        case {"kind": "subGroupDomains", "podGroup": group, "subGroup": subgroup, "nodeLabel": label}:
            got: Any = dict(Counter(_domains(groups[group], subgroup, label, session)))
            wanted: Any = assertion["podsPerDomain"]
        case {"kind": "subGroupNodes", "podGroup": group, "subGroup": subgroup}:
            got, wanted = sorted(set(_nodes(groups[group], subgroup, session))), sorted(assertion["nodes"])
        case {"kind": "oneDomainPerSubGroup", "podGroup": group, "subGroups": subgroups, "nodeLabel": label}:
            per_subgroup = [sorted(set(_domains(groups[group], each, label, session))) for each in subgroups]
            got, wanted = sorted(domain for domains in per_subgroup for domain in domains), assertion["domains"]
        case {"kind": "podFitErrorContains", "pod": pod, "text": text}:
            group = next(name for name, each in groups.items() if any(p["name"] == pod for p in each["pods"]))
            got, wanted = text in (_fit_error(group, session) or ""), True
        case {"kind": "podGroupHasFitError", "podGroup": group}:
            got, wanted = _fit_error(group, session) is not None, True
        case _:
            raise ValueError(f"unknown assertion {assertion['kind']}")
    if got != wanted:
        yield f"{what}: expected {wanted}, got {got}"


def _nodes(group: Json, subgroup: str, session: Session) -> list[str]:
    return [session.pods[pod["name"]].node for pod in group["pods"] if pod["subGroup"] == subgroup]


def _domains(group: Json, subgroup: str, label: str, session: Session) -> list[str]:
    table = session.snapshot.nodes
    nodes = _nodes(group, subgroup, session)
    return [table.nodes[table.rows[node]].metadata.labels.get(label, "") if node else "" for node in nodes]


def _fit_error(group: str, session: Session) -> str | None:
    waiting = session.waiting.get(group)
    reasons = waiting.reasons if waiting else ()
    if not reasons:
        return None
    heading = reasons[0].code if len(reasons) == 1 else SEVERAL_REASONS
    return f"\n{heading}.\n" + ".\n".join(map(str, reasons)) + "."
