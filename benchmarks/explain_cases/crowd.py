"""One large busy cluster in which jobs wait for all kinds of reasons: for what an answer costs."""

from __future__ import annotations

import random

from benchmarks.explain_cases.case import RACK, Objects, in_order, selecting
from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import (
    job,
    node,
    priority_class,
    queue,
    topology,
    within,
)
from bosket.testing.cluster import NOW, state_of

#: So many jobs wait.
WAITING = 100


def crowd(nodes: int, asked: int, seed: int = 1) -> tuple[bytes, list[ObjectKey], int]:
    """A busy cluster as a snapshot file, jobs of all kinds that wait in it, and how many pods there are.

    Eight GPUs a node, all but a few held by jobs of ten queues; those that wait are too large, over their queue's
    limit, bound to labels, or just late.
    """
    rng = random.Random(seed)
    total = nodes * 8
    names = [f"team-{number}" for number in range(10)]
    objects: Objects = [queue("all"), *(queue(name, parent="all", quota=total / 10, limit=total / 5) for name in names)]
    objects += [priority_class("train", 50), priority_class("build", 75)]
    objects += [node(f"node-{number:04}", gpus=8, labels={RACK: f"rack-{number // 20}"}) for number in range(nodes)]
    objects.append(topology("cluster", RACK, "kubernetes.io/hostname"))
    pods = 0
    for number in range(nodes):
        left = 8 if rng.random() < 0.95 else rng.randint(4, 7)
        while left > 0:
            size = min(left, rng.choice((1, 1, 1, 2)))
            queue_name = rng.choice(names)
            kind = rng.choice(("preemptible", "non-preemptible"))
            objects += job(
                f"run-{pods:05}",
                gpus=size,
                on=f"node-{number:04}",
                queue=queue_name,
                priority="train",
                namespace=queue_name,
                preemptibility=kind,
                created=NOW - 7200,
            )
            left, pods = left - size, pods + 1
    keys: list[ObjectKey] = []
    while len(keys) < WAITING:
        number, queue_name = len(keys), rng.choice(names)
        size, gpus = rng.choice(((1, 8), (1, 16), (2, 8), (4, 8), (8, 8), (4, 4), (1, 2)))
        extra: dict[str, object] = {}
        if size > 1 and rng.random() < 0.4:
            extra["topology"] = within("cluster", required=RACK)
        made = job(
            f"wait-{number:04}",
            size,
            gpus=gpus,
            queue=queue_name if rng.random() < 0.97 else "nobodys",
            namespace=queue_name,
            priority=rng.choice(("train", "build")),
            created=NOW - 3600 + number,
            **extra,  # type: ignore[arg-type]
        )
        if rng.random() < 0.1:
            made = [selecting(each) for each in made]
        objects += made
        pods += size
        keys.append(ObjectKey(queue_name, f"wait-{number:04}"))
    file = zipped(take(state_of(in_order(objects)), StateOptions(), Configuration(), NOW))
    return file, rng.sample(keys, asked), pods
