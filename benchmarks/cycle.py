"""One scheduling cycle on an empty cluster: N nodes of 8 GPUs, N gangs of 8 pods, ten queues. CPU time, no server."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from bosket.api.object import KubeObject
from bosket.scheduler.decide import decide
from bosket.scheduler.framework.configuration import Configuration
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, state_of

SIZES = (125, 500, 1000)
QUEUES = 10


def main() -> None:
    table = Table(
        "nodes", "pods", "read objects", "snapshot", "decide", "per pod", title="one cycle, CPU", title_justify="left"
    )
    for nodes in SIZES:
        objects = cluster(nodes)
        started = time.process_time()
        state = state_of(objects)
        read = time.process_time()
        snapshot = state.snapshot(NOW)
        frozen = time.process_time()
        decisions = decide(snapshot, Configuration())
        decided = time.process_time()
        pods = 8 * nodes
        assert len(decisions.binds) == pods
        table.add_row(
            str(nodes),
            str(pods),
            f"{(read - started) * 1e3:.0f} ms",
            f"{(frozen - read) * 1e3:.0f} ms",
            f"{(decided - frozen) * 1e3:.0f} ms",
            f"{(decided - frozen) / pods * 1e6:.0f} µs",
        )
    Console().print(table)


def cluster(nodes: int) -> list[KubeObject]:
    objects: list[KubeObject] = [node(f"node-{i:05}") for i in range(nodes)]
    objects += [queue(f"queue-{i}") for i in range(QUEUES)]
    for number in range(nodes):
        objects.append(pod_group(f"gang-{number}", min_member=8, queue=f"queue-{number % QUEUES}"))
        objects += gang(f"gang-{number}", 8)
    return objects
