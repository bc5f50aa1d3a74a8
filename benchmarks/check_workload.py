"""Small clusters for `check`, one for each kind of cost.

They are made by the builders, so that nothing but the repository is needed. Each is a list of objects, and the same
every time. Their names are those in `check.json`: a workload that changes gets another name, because its committed
ratio is of the old one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from bosket.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodResourceClaim,
)
from bosket.api.keys import QUEUE_LABEL
from bosket.api.object import KubeObject, LabelSelector
from bosket.testing.build import PodBuilder, job, node, pod, pod_group, priority_class, queue, topology, within
from bosket.testing.cluster import NOW
from bosket.testing.device import device, device_class, device_slice, resource_claim

GPUS, RACK_NODES = 8, 16
LEAVES = 10
STARTED = NOW - 86_400

Objects = list[KubeObject]


def _nodes(count: int, **fields: object) -> Objects:
    return [
        node(f"n{i:04}", cpu="128", memory="1Ti", pods=250, zone=f"z{i // 64}", rack=f"r{i // RACK_NODES}", **fields)  # type: ignore[arg-type]
        for i in range(count)
    ]


def _queues(gpus: float) -> Objects:
    parents = [queue(f"d{i}", quota=gpus / 2) for i in range(2)]
    return [*parents, *(queue(f"q{i}", parent=f"d{i % 2}", quota=gpus / LEAVES) for i in range(LEAVES))]


def _jobs(count: int, size: int, one: Callable[[str], PodBuilder], **group: object) -> Objects:
    """Jobs of equal pods, in all queues in turn."""
    made: Objects = []
    for number in range(count):
        name = f"j{number:05}"
        made.append(pod_group(name, min_member=size, queue=f"q{number % LEAVES}", **group))  # type: ignore[arg-type]
        made += [one(f"{name}-{member}").of_group(name).build() for member in range(size)]
    return made


def _plain(name: str) -> PodBuilder:
    return pod(name).gpu(1).cpu("1").memory("1Gi")


def gangs(nodes: int = 200) -> Objects:
    """Gangs of 8 fill an empty cluster."""
    return [*_nodes(nodes), *_queues(nodes * GPUS), *_jobs(nodes, GPUS, _plain)]


def single_pods(nodes: int = 120) -> Objects:
    """Jobs of one pod fill an empty cluster."""
    return [*_nodes(nodes), *_queues(nodes * GPUS), *_jobs(nodes * GPUS, 1, _plain)]


def shapes(nodes: int = 100, kinds: int = 150) -> Objects:
    """Jobs of one pod, of many shapes, for some zones only."""
    rng = random.Random(7)

    def one(name: str) -> PodBuilder:
        kind = rng.randrange(kinds)
        asked = pod(name).gpu(1 + kind % 2).cpu(f"{500 + 50 * kind}m").memory(f"{1 + kind % 40}Gi")
        return asked.only_on("zone", f"z{kind % 2}") if kind % 3 == 0 else asked

    return [*_nodes(nodes), *_queues(nodes * GPUS), *_jobs(nodes * 5, 1, one)]


def fractions(nodes: int = 40) -> Objects:
    """Quarters of GPUs fill an empty cluster."""
    jobs = _jobs(nodes * GPUS * 4, 1, lambda name: pod(name).shares_gpu(0.25).cpu("1").memory("1Gi"))
    return [*_nodes(nodes, gpu_memory=81_920), *_queues(nodes * GPUS), *jobs]


def racks(nodes: int = 256) -> Objects:
    """Gangs of 64, each within one rack."""
    jobs = _jobs(20, 64, _plain, topology=within("t", "rack"))
    return [*_nodes(nodes), *_queues(nodes * GPUS), topology("t", "zone", "rack"), *jobs]


def claims(nodes: int = 100) -> Objects:
    """Gangs of 4 with a claim for each pod fill an empty cluster."""
    made: Objects = [*_nodes(nodes, gpus=0), *_queues(0), device_class("gpu", "device.driver == 'gpu.example.com'")]
    made += [
        device_slice(f"n{i:04}", *(device(f"gpu-{at}", capacity={"memory": "80Gi"}) for at in range(GPUS)))
        for i in range(nodes)
    ]

    def one(name: str) -> PodBuilder:
        at = int(name.partition("-")[0][1:]) % LEAVES  # a claim is of its pod's queue
        made.append(resource_claim(f"{name}-gpu", owner=f"uid-{name}", labels={QUEUE_LABEL: f"q{at}"}))
        return (
            pod(name)
            .cpu("1")
            .memory("1Gi")
            .with_spec(resourceClaims=(PodResourceClaim(name="gpu", resourceClaimName=f"{name}-gpu"),))
        )

    made += _jobs(nodes * GPUS // 4, 4, one)
    return made


def neighbours(nodes: int = 128) -> Objects:
    """Gangs of 4: half of them in one rack each, half of them on different nodes, by affinity among their pods."""

    def one(name: str) -> PodBuilder:
        app = name.partition("-")[0]
        selector = LabelSelector(matchLabels={"app": app})
        if int(app[1:]) % 2:
            term = PodAffinityTerm(labelSelector=selector, topologyKey="kubernetes.io/hostname")
            affinity = Affinity(podAntiAffinity=PodAntiAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
        else:
            term = PodAffinityTerm(labelSelector=selector, topologyKey="rack")
            affinity = Affinity(podAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
        return _plain(name).label("app", app).with_spec(affinity=affinity)

    return [*_nodes(nodes), *_queues(nodes * GPUS), *_jobs(nodes * 3 // 2, 4, one)]


def reclaim(nodes: int = 200) -> Objects:
    """One queue holds everything, another asks for its half: large enough that costs by jobs × searches show."""
    made: Objects = [*_nodes(nodes), *(queue(name, quota=nodes * GPUS / 2) for name in ("rich", "poor"))]
    for i in range(nodes):
        made += job(f"run{i:04}", GPUS, on=f"n{i:04}", queue="rich", started=STARTED)
    for i in range(nodes // 2):
        made += job(f"new{i:04}", GPUS, queue="poor")
    return made


def consolidation(nodes: int = 120) -> Objects:
    """A gang needs four whole nodes, and there are one to seven jobs on every node."""
    rng = random.Random(7)
    made: Objects = [*_nodes(nodes), *_queues(nodes * GPUS)]
    for i in range(nodes):
        for at in range(rng.randint(1, 7)):
            made += job(f"run{i:04}-{at}", on=f"n{i:04}", queue=f"q{(i + at) % LEAVES}", started=STARTED)
    return [*made, *job("new", 4, gpus=GPUS, queue="q0")]


def contended(nodes: int = 60, waiting: int = 120) -> Objects:
    """Queues over their quotas, three priorities, jobs of many sizes; nearly full, fragmented, and more work waits."""
    rng = random.Random(7)
    priorities = {"low": 25, "train": 50, "build": 100}
    made: Objects = [*_nodes(nodes), *_queues(nodes * GPUS)]
    made += [priority_class(name, value) for name, value in priorities.items()]
    free = {f"n{i:04}": GPUS for i in range(nodes)}
    number = 0
    while sum(free.values()) > nodes * GPUS * 0.12:
        size, gpus = rng.choice((1, 1, 2, 4, 8)), rng.choice((1, 1, 2, 4))
        on: list[str] = []
        for name in rng.sample(sorted(free), nodes):
            if len(on) < size and free[name] >= gpus:
                free[name] -= gpus
                on.append(name)
        # Half of all is held by the first three queues.
        at = rng.choice((0, 1, 2, rng.randrange(LEAVES)))
        priority = rng.choice(tuple(priorities))
        made += job(
            f"run{number:04}", len(on), gpus=gpus, on=on, queue=f"q{at}", priority=priority, started=STARTED
        )  # fmt: skip
        number += 1
    for i in range(waiting):
        size, gpus = rng.choice((1, 1, 2, 4, 8, 16)), rng.choice((1, 2, 4, 8))
        priority = rng.choice(tuple(priorities))
        made += job(f"new{i:04}", size, gpus=gpus, queue=f"q{rng.randrange(LEAVES)}", priority=priority)
    return made


def running(nodes: int = 400) -> Objects:
    """A gang of 8 runs on every node, and nothing waits."""
    made: Objects = [*_nodes(nodes), *_queues(nodes * GPUS)]
    for i in range(nodes):
        made += job(f"run{i:04}", GPUS, on=f"n{i:04}", queue=f"q{i % LEAVES}", started=STARTED)
    return made


def ended_and_running(objects: Sequence[KubeObject]) -> tuple[Pod, Pod]:
    """A running pod of the cluster, ended, and as it is."""
    import msgspec

    found = next(each for each in objects if isinstance(each, Pod))
    ended = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, phase="Succeeded"))
    return ended, found


#: Decided on as they are.
DECIDED: Mapping[str, Callable[[], Objects]] = {
    "gangs": gangs,
    "single pods": single_pods,
    "shapes": shapes,
    "fractions": fractions,
    "racks": racks,
    "claims": claims,
    "neighbours": neighbours,
    "reclaim": reclaim,
    "consolidation": consolidation,
    "contended": contended,
}
