"""Random clusters with work on them, and random changes: what `bosket plan` and then the scheduler itself are asked."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Manifest = dict[str, Any]

QUEUE_LABEL = "kai.scheduler/queue"
PRIORITIES = ("train", "build-preemptible", "build", "inference")


@dataclass(frozen=True)
class Scene:
    """What is there first."""

    nodes: int
    gpus: int  #: of each node
    racks: int
    queues: tuple[Manifest, ...]
    workloads: tuple[Manifest, ...]  #: in the order in which they are submitted


@dataclass(frozen=True)
class Question:
    """What is asked, and then done."""

    kind: str
    submit: tuple[Manifest, ...] = ()
    set_: tuple[str, ...] = ()  #: as on the command line
    delete: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    add_nodes: int = 0


def scene(random: Random) -> Scene:
    """A cluster that is half full to overfull."""
    nodes, gpus = random.randint(2, 6), random.choice((2, 4, 8))
    total = nodes * gpus
    leaves = [f"team-{letter}" for letter in "abc"[: random.randint(2, 3)]]
    queues = [_queue("all", "", quota=-1, limit=-1, weight=1)]
    for name in leaves:
        quota = random.choice((0, total // 4, total // 2, total // len(leaves)))
        limit = random.choice((-1, -1, -1, max(quota, total // 2)))
        queues.append(_queue(name, "all", quota=quota, limit=limit, weight=random.choice((0, 1, 1, 2))))
    workloads: list[Manifest] = []
    asked, wanted = 0.0, random.uniform(0.4, 1.6) * total
    while asked < wanted:
        made = workload(random, f"old-{len(workloads)}", leaves, gpus)
        asked += asked_by(made)
        workloads.append(made)
    return Scene(nodes, gpus, random.randint(1, 2), tuple(queues), tuple(workloads))


def question(random: Random, of: Scene) -> Question:
    """Most often a workload, sometimes several; else another quota, the end of something, a drain, more nodes."""
    leaves = [each["metadata"]["name"] for each in of.queues if each["spec"].get("parentQueue")]
    kind = random.random()
    if kind < 0.6:
        return Question("workload", submit=(workload(random, "new-0", leaves, of.gpus),))
    if kind < 0.7:
        count = random.choice((2, 3))
        made = tuple(workload(random, f"new-{number}", leaves, of.gpus) for number in range(count))
        return Question("several workloads", submit=made)
    if kind < 0.8 or not of.workloads:
        field = random.choice(("quota", "limit"))
        value = random.randint(0, of.nodes * of.gpus)
        return Question("quota", set_=(f"{random.choice(leaves)}.gpu.{field}={value}",))
    if kind < 0.87:
        gone = random.choice(of.workloads)
        return Question("deletion", delete=(f"{gone['kind']}/{gone['metadata']['name']}",))
    if kind < 0.95:
        return Question("drain", drain=(f"node-{random.randrange(of.nodes):03}",))
    return Question("nodes", add_nodes=random.randint(1, 2))


def workload(random: Random, name: str, queues: list[str], node_gpus: int) -> Manifest:
    """A gang, an elastic job, a service, a stateful set, or pods that share GPUs."""
    queue, priority = random.choice(queues), random.choice(PRIORITIES)
    pods = random.choice((1, 1, 2, 2, 3, 4))
    gpus = random.choice([each for each in (1, 1, 2, 4, 8) if each <= node_gpus])
    kind = random.random()
    labels = {QUEUE_LABEL: queue, "priorityClassName": priority}
    if kind < 0.6:
        minimum = pods if random.random() < 0.7 else random.randint(1, pods)
        template = _template(labels, {"restartPolicy": "Never"}, gpus)
        counts = {"parallelism": pods, "completions": pods, "backoffLimit": 100}
        return _object("Job", name, labels, {**counts, "template": template}, minimum)
    own = {**labels, "app": name}
    spec: Manifest = {"replicas": pods, "selector": {"matchLabels": {"app": name}}}
    if kind < 0.75:
        return _object("Deployment", name, labels, {**spec, "template": _template(own, {}, gpus)})
    if kind < 0.85:
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        return _object("StatefulSet", name, labels, {**spec, "template": _template(own, {}, gpus)})
    sharing = {"gpu-fraction": random.choice(("0.25", "0.5", "0.75"))}
    return _object("Deployment", name, labels, {**spec, "template": _template(own, {}, 0, sharing)})


def asked_by(manifest: Manifest) -> float:
    """GPUs that all of its pods ask for."""
    spec = manifest["spec"]
    container = spec["template"]["spec"]["containers"][0]
    gpus = float(container["resources"]["limits"].get("nvidia.com/gpu", 0))
    gpus = gpus or float(spec["template"]["metadata"]["annotations"].get("gpu-fraction", 0))
    return gpus * float(spec.get("parallelism", spec.get("replicas", 1)))


def _queue(name: str, parent: str, *, quota: float, limit: float, weight: float) -> Manifest:
    unbounded = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Manifest = {
        "resources": {
            "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}, "cpu": unbounded, "memory": unbounded,
        }
    }  # fmt: skip
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _object(kind: str, name: str, labels: dict[str, str], spec: Manifest, minimum: int | None = None) -> Manifest:
    annotations = {} if minimum is None else {"kai.scheduler/batch-min-member": str(minimum)}
    metadata = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}


def _template(labels: dict[str, str], spec: Manifest, gpus: int, annotations: dict[str, str] | None = None) -> Manifest:
    limits = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    return {
        # As containers that end in an orderly way: all pods of a workload are ending before the first is gone.
        "metadata": {"labels": labels, "annotations": {"bosket.dev/stop-delay": "3s", **(annotations or {})}},
        "spec": {**spec, "schedulerName": "kai-scheduler", "containers": [container]},
    }
