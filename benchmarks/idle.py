"""What a cycle costs when there is nothing to do: 5,000 nodes, 40,000 running pods, none waiting. CPU time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from itertools import cycle

import msgspec

from benchmarks.report import Column, Report, number, progress
from bosket.api.core import Node, NodeCondition, Pod
from bosket.api.object import KubeObject
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of

NODES, PODS_PER_NODE, QUEUES = 5000, 8, 10
REPEAT = 20
CONFIGURATION = Configuration(actions=tuple(ACTIONS))
#: Of a cycle in which nothing changed.
PROMISED_MS = 20.0

COLUMNS = (
    Column("cycle", "cycle"),
    Column("cpu_ms", "median", number(3, " ms")),
    Column("worst_ms", "worst", number(3, " ms")),
)


def run() -> Report:
    report = Report(f"Cycles with nothing to do: {NODES:,} nodes, {NODES * PODS_PER_NODE:,} running pods", COLUMNS)
    progress("a cluster where everything runs")
    state = state_of(_cluster())
    decided: Snapshot | None = None

    def loop_cycle() -> None:
        """What the scheduling loop does."""
        nonlocal decided
        snapshot = state.snapshot(NOW)
        if snapshot is not decided:
            decide(snapshot, CONFIGURATION)
            decided = snapshot

    def decide_anyway() -> None:
        decisions = decide(state.snapshot(NOW), CONFIGURATION)
        report.expect(not decisions.operations, "something was decided though nothing waits")

    loop_cycle()
    heartbeats, phases = _heartbeats(state), _phases(state)

    def after(change: Callable[[], None]) -> Callable[[], None]:
        def changed_cycle() -> None:
            change()
            loop_cycle()

        return changed_cycle

    _measure(report, "nothing changed: the loop sees the same snapshot", loop_cycle)
    _measure(report, "a node's heartbeat", after(heartbeats))
    _measure(report, "nothing changed, decided anew all the same", decide_anyway)
    for row in report.rows:
        spent = f"{row['cycle']}: {row['cpu_ms']:.1f} ms CPU"
        report.expect(row["cpu_ms"] < PROMISED_MS, f"{spent}, not less than {PROMISED_MS:g} ms")
    _measure(report, "one pod ended, or was started", after(phases))
    return report


def _measure(report: Report, name: str, once: Callable[[], None]) -> None:
    progress(name)
    once()
    gc.collect()
    spent = []
    for _ in range(REPEAT):
        began = time.process_time()
        once()
        spent.append((time.process_time() - began) * 1e3)
    spent.sort()
    report.rows.append({"cycle": name, "cpu_ms": spent[REPEAT // 2], "worst_ms": spent[-1]})


def _heartbeats(state: ClusterState) -> Callable[[], None]:
    nodes = cycle(_beating(minute) for minute in range(2))
    return lambda: state.put(next(nodes))


def _beating(minute: int) -> Node:
    base = node("node-00000")
    ready = NodeCondition(type="Ready", status="True", lastHeartbeatTime=f"2026-01-01T00:{minute:02}:00Z")
    return msgspec.structs.replace(base, status=msgspec.structs.replace(base.status, conditions=(ready,)))


def _phases(state: ClusterState) -> Callable[[], None]:
    running = _running(0, 0)
    ended = msgspec.structs.replace(running, status=msgspec.structs.replace(running.status, phase="Succeeded"))
    pods = cycle((ended, running))
    return lambda: state.put(next(pods))


def _cluster() -> list[KubeObject]:
    total = NODES * PODS_PER_NODE
    objects: list[KubeObject] = [node(f"node-{i:05}") for i in range(NODES)]
    objects += [queue(f"department-{i}", quota=total / 2) for i in range(2)]
    objects += [queue(f"queue-{i}", parent=f"department-{i % 2}", quota=total / QUEUES) for i in range(QUEUES)]
    for i in range(NODES):
        objects.append(pod_group(f"gang-{i}", min_member=PODS_PER_NODE, queue=f"queue-{i % QUEUES}"))
        objects += [_running(i, member) for member in range(PODS_PER_NODE)]
    return objects


def _running(gang: int, member: int) -> Pod:
    builder = pod(f"gang-{gang}-{member}").gpu(1).cpu("1").memory("1Gi").of_group(f"gang-{gang}")
    return builder.running_on(f"node-{gang:05}").build()
