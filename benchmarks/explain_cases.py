"""Jobs that wait, each for a reason that it was built with: what `explain` must find out.

A case is a small cluster with one job that waits, the verdict that is right for it, and the codes that name its reason.
Sizes and bystanders are drawn by a seed; neither changes the label. Tests take a sample of them, the benchmark takes
three hundred.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bosket.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    Volume,
)
from bosket.api.kai import PodGroup, SubGroup
from bosket.api.object import KubeObject, LabelSelector, ObjectKey, ObjectMeta
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import (
    cordoned,
    gang,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    tainted,
    topology,
    within,
)
from bosket.testing.cluster import NOW, state_of

NEVER, NOT_NOW = "never", "not-now"
LABEL = "example.com/pool"
RACK = "example.com/rack"
KEY = ObjectKey("ml", "asked")

Objects = list[KubeObject]


@dataclass(frozen=True)
class Case:
    """One cluster, with one job that a question is put about."""

    label: str
    seed: int
    objects: Objects
    verdict: str
    codes: frozenset[str]  #: any of them names the reason
    tier: str
    key: ObjectKey = KEY

    @property
    def name(self) -> str:
        return f"{self.label}-{self.seed}"

    def recording(self) -> bytes:
        """The cluster as a snapshot file."""
        return zipped(take(state_of(self.objects), StateOptions(), Configuration(), NOW))


@dataclass(frozen=True)
class Made:
    """What a builder makes, and what is right for it."""

    objects: Objects
    verdict: str
    codes: frozenset[str]
    tier: str


@dataclass
class Draw:
    """Sizes of one case."""

    rng: random.Random
    gpus: int = field(init=False)  #: of each node
    nodes: int = field(init=False)

    def __post_init__(self) -> None:
        self.gpus, self.nodes = self.rng.choice((4, 8)), self.rng.randint(2, 6)

    def machines(self, **labels: str) -> list[KubeObject]:
        return [node(f"node-{number}", gpus=self.gpus, labels=labels) for number in range(self.nodes)]

    def asked(self, size: int = 1, **fields: object) -> Objects:
        """The job in question; the youngest of all."""
        return job(KEY.name, size, namespace=KEY.namespace, created=NOW - 60, **fields)  # type: ignore[arg-type]

    def filled(self, free: int = 0, *, queue: str = "others", **fields: Any) -> Objects:
        """Jobs that can't be preempted on all nodes, which leave so many GPUs free on each."""
        fields = {"preemptibility": "non-preemptible", "created": NOW - 7200, **fields}
        objects: Objects = []
        for number in range(self.nodes):
            left, part = self.gpus - free, 0
            while left > 0:
                size = min(left, self.rng.choice((1, 2, 4)))
                objects += job(
                    f"busy-{number}-{part}", gpus=size, on=f"node-{number}", queue=queue, namespace="others", **fields
                )
                left, part = left - size, part + 1
        return objects


def _made(verdict: str, codes: str | Iterable[str], tier: str, *parts: KubeObject | Iterable[KubeObject]) -> Made:
    objects: Objects = []
    for part in parts:
        objects += [part] if isinstance(part, KubeObject) else part
    return Made(objects, verdict, frozenset([codes] if isinstance(codes, str) else codes), tier)


def _queues() -> Objects:
    return [queue("q"), queue("others")]


def _labels(obj: KubeObject, labels: Mapping[str, str]) -> ObjectMeta:
    return msgspec.structs.replace(obj.metadata, labels={**obj.metadata.labels, **labels})


def _labelled(obj: KubeObject, labels: Mapping[str, str]) -> KubeObject:
    return msgspec.structs.replace(obj, metadata=_labels(obj, labels))


def over_limit(draw: Draw) -> Made:
    need = draw.rng.randint(1, draw.gpus)
    held = draw.gpus * (draw.nodes - 1)
    running = [
        each
        for number in range(draw.nodes - 1)
        for each in job(f"mine-{number}", gpus=draw.gpus, on=f"node-{number}", namespace="ml", created=NOW - 3600)
    ]
    limit = draw.rng.randint(max(held, need), held + need - 1) if held + need - 1 >= max(held, need) else held
    return _made(
        NOT_NOW, "OverLimit", "queue", queue("q", limit=limit), draw.machines(), running, draw.asked(gpus=need)
    )


def over_limit_of_parent(draw: Draw) -> Made:
    running = [
        each
        for number in range(draw.nodes - 1)
        for each in job(
            f"theirs-{number}",
            gpus=draw.gpus,
            on=f"node-{number}",
            queue="sibling",
            namespace="others",
            preemptibility="non-preemptible",
            created=NOW - 3600,
        )
    ]
    limit = draw.gpus * (draw.nodes - 1)
    return _made(
        NOT_NOW,
        "OverLimit",
        "queue",
        queue("top", limit=limit),
        queue("q", parent="top"),
        queue("sibling", parent="top"),
        draw.machines(),
        running,
        draw.asked(gpus=draw.gpus),
    )


def limit_below_request(draw: Draw) -> Made:
    need = draw.rng.randint(2, draw.gpus)
    return _made(NEVER, "OverLimit", "queue", queue("q", limit=need - 1), draw.machines(), draw.asked(gpus=need))


def over_quota(draw: Draw) -> Made:
    need = draw.rng.randint(1, draw.gpus)
    running = job(
        "mine", gpus=draw.gpus, on="node-0", namespace="ml", preemptibility="non-preemptible", created=NOW - 3600
    )
    return _made(
        NOT_NOW,
        "NonPreemptibleOverQuota",
        "queue",
        queue("q", quota=max(draw.gpus, need)),
        draw.machines(),
        running,
        draw.asked(gpus=need, preemptibility="non-preemptible"),
    )


def quota_below_request(draw: Draw) -> Made:
    need = draw.rng.randint(2, draw.gpus)
    return _made(
        NEVER,
        "NonPreemptibleOverQuota",
        "queue",
        queue("q", quota=need - 1),
        draw.machines(),
        draw.asked(gpus=need, preemptibility="non-preemptible"),
    )


def larger_than_any_node(draw: Draw) -> Made:
    return _made(
        NEVER,
        "PodSchedulingErrors",
        "nodes",
        _queues(),
        draw.machines(),
        draw.asked(gpus=draw.gpus + draw.rng.randint(1, draw.gpus)),
    )


def more_cpu_than_any_node(draw: Draw) -> Made:
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).cpu(str(draw.rng.randint(65, 128))).of_group(KEY.name).build()
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), group, asked)


def more_memory_than_any_node(draw: Draw) -> Made:
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).memory(f"{draw.rng.randint(513, 900)}Gi").of_group(KEY.name).build()
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), group, asked)


def larger_than_the_cluster(draw: Draw) -> Made:
    return _made(
        NEVER,
        "PodSchedulingErrors",
        "nodes",
        _queues(),
        draw.machines(),
        draw.asked(draw.nodes + draw.rng.randint(1, 3), gpus=draw.gpus),
    )


def cluster_is_full(draw: Draw) -> Made:
    return _made(
        NOT_NOW,
        "PodSchedulingErrors",
        "nodes",
        _queues(),
        draw.machines(),
        draw.filled(),
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def fragmented(draw: Draw) -> Made:
    free = draw.rng.randint(1, draw.gpus - 1)
    need = draw.rng.randint(free + 1, min(draw.gpus, free * draw.nodes)) if free * draw.nodes > free else draw.gpus
    return _made(
        NOT_NOW, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), draw.filled(free), draw.asked(gpus=need)
    )


def _racks(draw: Draw) -> tuple[Objects, int]:
    """Nodes in racks of two, and how many racks."""
    racks = draw.rng.randint(2, 3)
    draw.nodes = racks * 2
    made = [
        msgspec.structs.replace(
            each,
            metadata=msgspec.structs.replace(
                each.metadata, labels={**each.metadata.labels, RACK: f"rack-{number // 2}"}
            ),
        )
        for number, each in enumerate(draw.machines())
    ]
    return [topology("cluster", RACK, "kubernetes.io/hostname"), *made], racks


def larger_than_any_rack(draw: Draw) -> Made:
    racks, _ = _racks(draw)
    return _made(
        NEVER,
        ("PodSchedulingErrors", "Not enough resources for the workload"),
        "topology",
        _queues(),
        racks,
        draw.asked(draw.rng.randint(3, 4), gpus=draw.gpus, topology=within("cluster", required=RACK)),
    )


def racks_are_full(draw: Draw) -> Made:
    racks, count = _racks(draw)
    busy = [
        each
        for rack in range(count)
        for each in job(
            f"busy-{rack}",
            gpus=draw.gpus,
            on=f"node-{rack * 2}",
            queue="others",
            namespace="others",
            preemptibility="non-preemptible",
            created=NOW - 7200,
        )
    ]
    return _made(
        NOT_NOW,
        ("PodSchedulingErrors", "Not enough resources for the workload"),
        "topology",
        _queues(),
        racks,
        busy,
        draw.asked(2, gpus=draw.gpus, topology=within("cluster", required=RACK)),
    )


def unknown_topology(draw: Draw) -> Made:
    return _made(
        NEVER,
        ("PodSchedulingErrors", "TopologyUnusable"),
        "topology",
        _queues(),
        draw.machines(),
        draw.asked(2, topology=within("nowhere", required=RACK)),
    )


def unknown_level(draw: Draw) -> Made:
    racks, _ = _racks(draw)
    return _made(
        NEVER,
        ("PodSchedulingErrors", "TopologyUnusable"),
        "topology",
        _queues(),
        racks,
        draw.asked(2, topology=within("cluster", required="example.com/row")),
    )


def gated(draw: Draw) -> Made:
    size = draw.rng.randint(1, 4)
    pods = [
        pod(f"asked-{number}", KEY.namespace).gpu(1).of_group(KEY.name).gated_by("example.com/wait").build()
        for number in range(size)
    ]
    group = pod_group(KEY.name, min_member=size, namespace=KEY.namespace, created=NOW - 60)
    return _made(NEVER, ("NotReady", "GatesClosed"), "spec", _queues(), draw.machines(), group, pods)


def members_missing(draw: Draw) -> Made:
    there = draw.rng.randint(1, 3)
    return _made(
        NEVER,
        "NotReady",
        "spec",
        _queues(),
        draw.machines(),
        draw.asked(there, min_member=there + draw.rng.randint(1, 3)),
    )


def members_of_a_subgroup_missing(draw: Draw) -> Made:
    group = pod_group(
        KEY.name,
        namespace=KEY.namespace,
        created=NOW - 60,
        subgroups=(SubGroup(name="lead", minMember=1), SubGroup(name="work", minMember=3)),
    )
    pods = [
        *gang(KEY.name, 1, namespace="ml", subgroup="lead"),
        *gang(KEY.name, draw.rng.randint(1, 2), namespace="ml", subgroup="work"),
    ]
    return _made(NEVER, "NotReady", "spec", _queues(), draw.machines(), group, pods)


def queue_missing(draw: Draw) -> Made:
    return _made(NEVER, "QueueDoesNotExist", "queue", queue("others"), draw.machines(), draw.asked(queue="nobodys"))


def queue_has_children(draw: Draw) -> Made:
    return _made(NEVER, "QueueUnusable", "queue", queue("q"), queue("leaf", parent="q"), draw.machines(), draw.asked())


def no_node_has_the_label(draw: Draw) -> Made:
    asked = [_selecting(each) for each in draw.asked()]
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), asked)


def _selecting(obj: KubeObject, **spec: object) -> KubeObject:
    if not isinstance(obj, Pod):
        return obj
    return msgspec.structs.replace(
        obj, spec=msgspec.structs.replace(obj.spec, **(spec or {"nodeSelector": {LABEL: "fast"}}))
    )


def node_affinity_of_no_node(draw: Draw) -> Made:
    among = NodeSelectorRequirement(key=LABEL, operator="In", values=("fast", "faster"))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(among,)),))
    affinity = Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required))
    asked = [_selecting(each, affinity=affinity) for each in draw.asked()]
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), asked)


def nodes_with_the_label_are_full(draw: Draw) -> Made:
    busy = draw.filled()
    fast = [_labelled(each, {LABEL: "fast"}) for each in draw.machines()]
    spare = node("spare", gpus=draw.gpus)
    return _made(
        NOT_NOW,
        "PodSchedulingErrors",
        "nodes",
        _queues(),
        fast,
        spare,
        busy,
        [_selecting(each) for each in draw.asked()],
    )


def all_nodes_tainted(draw: Draw) -> Made:
    nodes = [tainted(each, "example.com/reserved", "true") for each in draw.machines()]  # type: ignore[arg-type]
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), nodes, draw.asked())


def all_nodes_cordoned(draw: Draw) -> Made:
    nodes = [cordoned(each) for each in draw.machines()]  # type: ignore[arg-type]
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), nodes, draw.asked())


def neighbours_excluded(draw: Draw) -> Made:
    term = PodAffinityTerm(
        labelSelector=LabelSelector(matchLabels={"app": "asked"}), topologyKey="kubernetes.io/hostname"
    )
    affinity = Affinity(podAntiAffinity=PodAntiAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
    size = draw.nodes + draw.rng.randint(1, 2)
    pods = [
        pod(f"asked-{number}", KEY.namespace)
        .gpu(1)
        .label("app", "asked")
        .of_group(KEY.name)
        .with_spec(affinity=affinity)
        .build()
        for number in range(size)
    ]
    group = pod_group(KEY.name, min_member=size, namespace=KEY.namespace, created=NOW - 60)
    return _made(NEVER, "PodSchedulingErrors", "nodes", _queues(), draw.machines(), group, pods)


def volume_claim_missing(draw: Draw) -> Made:
    volume = Volume(name="data", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName="data"))
    asked = [_selecting(each, volumes=(volume,)) for each in draw.asked()]
    return _made(NEVER, "PodSchedulingErrors", "spec", _queues(), draw.machines(), asked)


def higher_priority_is_served_first(draw: Draw) -> Made:
    ahead = job("ahead", gpus=draw.gpus, namespace="ml", priority="high", created=NOW - 30)
    one = [node("node-0", gpus=draw.gpus)]
    return _made(
        NOT_NOW,
        "LowerInOrder",
        "order",
        _queues(),
        priority_class("high", 75),
        one,
        ahead,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def older_is_served_first(draw: Draw) -> Made:
    ahead = job("ahead", gpus=draw.gpus, namespace="ml", created=NOW - 3600)
    one = [node("node-0", gpus=draw.gpus)]
    return _made(
        NOT_NOW, "LowerInOrder", "order", _queues(), one, ahead, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


def beyond_its_fair_share(draw: Draw) -> Made:
    """Both queues hold their half, and may be reclaimed from; the job's queue would go beyond its own."""
    draw.nodes = 2
    half = draw.gpus
    mine = job("mine", gpus=draw.gpus, on="node-0", namespace="ml", created=NOW - 7200)
    theirs = job("theirs", gpus=draw.gpus, on="node-1", namespace="others", queue="others", created=NOW - 7200)
    return _made(
        NOT_NOW,
        "OverFairShare",
        "fairness",
        queue("q", quota=half),
        queue("others", quota=half),
        draw.machines(),
        mine,
        theirs,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def _reclaimable(draw: Draw, **queue_fields: str) -> tuple[Objects, Objects]:
    """Queues, nodes and jobs of another queue beyond its share, which the job in question would take back from."""
    total = draw.gpus * draw.nodes
    queues = [queue("q", quota=total), queue("others", quota=0, **queue_fields)]  # type: ignore[arg-type]
    busy = [
        each
        for number in range(draw.nodes)
        for each in job(
            f"busy-{number}",
            gpus=draw.gpus,
            on=f"node-{number}",
            queue="others",
            namespace="others",
            created=NOW - 300,
            started=NOW - 300,
        )
    ]
    return [*queues, *draw.machines()], busy


def preemption_delay(draw: Draw) -> Made:
    base, busy = _reclaimable(draw)
    return _made(
        NOT_NOW,
        "PreemptionDelayNotElapsed",
        "fairness",
        base,
        busy,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus), preemption_delay=f"{draw.rng.randint(5, 60)}m"),
    )


def min_runtime(draw: Draw) -> Made:
    base, busy = _reclaimable(draw, reclaim_min_runtime=f"{draw.rng.randint(1, 5)}h")
    return _made(
        NOT_NOW, "MinRuntimeNotElapsed", "fairness", base, busy, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


def disruption_budget(draw: Draw) -> Made:
    base, busy = _reclaimable(draw)
    labelled = [
        msgspec.structs.replace(
            each,
            metadata=_labels(each, {"app": "busy"}),
            status=msgspec.structs.replace(each.status, conditions=(PodCondition(type="Ready", status="True"),)),
        )
        if isinstance(each, Pod)
        else each
        for each in busy
    ]
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="others", generation=1),
        spec=PodDisruptionBudgetSpec(maxUnavailable=0, selector=LabelSelector(matchLabels={"app": "busy"})),
        status=PodDisruptionBudgetStatus(
            disruptionsAllowed=0,
            currentHealthy=draw.nodes,
            desiredHealthy=draw.nodes,
            expectedPods=draw.nodes,
            observedGeneration=1,
        ),
    )
    return _made(
        NOT_NOW, "EvictionRefused", "fairness", base, labelled, budget, draw.asked(gpus=draw.rng.randint(1, draw.gpus))
    )


def victims_are_ending(draw: Draw) -> Made:
    pods = [
        pod(f"going-{number}", "others")
        .gpu(draw.gpus)
        .of_group("going")
        .running_on(f"node-{number}")
        .being_deleted_at(NOW)
        .build()
        for number in range(draw.nodes)
    ]
    group = pod_group("going", min_member=draw.nodes, queue="others", namespace="others", created=NOW - 3600)
    return _made(
        "waiting-for-termination",
        "WaitingForTermination",
        "nodes",
        _queues(),
        draw.machines(),
        group,
        pods,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def gpu_memory_larger_than_any_device(draw: Draw) -> Made:
    nodes = [node(f"node-{number}", gpus=draw.gpus, gpu_memory=40_960) for number in range(draw.nodes)]
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).gpu_memory(draw.rng.choice((60_000, 80_000))).of_group(KEY.name).build()
    return _made(NEVER, "PodSchedulingErrors", ("nodes"), _queues(), nodes, group, asked)


BUILDERS: Mapping[str, Callable[[Draw], Made]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        over_limit,
        over_limit_of_parent,
        limit_below_request,
        over_quota,
        quota_below_request,
        larger_than_any_node,
        more_cpu_than_any_node,
        more_memory_than_any_node,
        larger_than_the_cluster,
        cluster_is_full,
        fragmented,
        larger_than_any_rack,
        racks_are_full,
        unknown_topology,
        unknown_level,
        gated,
        members_missing,
        members_of_a_subgroup_missing,
        queue_missing,
        queue_has_children,
        no_node_has_the_label,
        node_affinity_of_no_node,
        nodes_with_the_label_are_full,
        all_nodes_tainted,
        all_nodes_cordoned,
        neighbours_excluded,
        volume_claim_missing,
        higher_priority_is_served_first,
        older_is_served_first,
        beyond_its_fair_share,
        preemption_delay,
        min_runtime,
        disruption_budget,
        victims_are_ending,
        gpu_memory_larger_than_any_device,
    )
}


def case(label: str, seed: int) -> Case:
    """The case of that label with that seed."""
    made = BUILDERS[label](Draw(random.Random(f"{label} {seed}")))
    return Case(label, seed, _in_order(made.objects), made.verdict, made.codes, made.tier)


def cases(count: int, seed: int = 0) -> list[Case]:
    """So many cases, of all labels in turn."""
    labels = list(BUILDERS)
    return [case(labels[number % len(labels)], seed + number // len(labels)) for number in range(count)]


def _in_order(objects: Objects) -> Objects:
    """Pod groups before their pods, as informers deliver them."""
    return sorted(objects, key=lambda each: (isinstance(each, Pod), isinstance(each, PodGroup)))


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
        left = 8 if rng.random() < 0.9 else rng.randint(4, 7)
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
    while pods < nodes * 8 or len(keys) < asked:
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
            made = [_selecting(each) for each in made]
        objects += made
        pods += size
        keys.append(ObjectKey(queue_name, f"wait-{number:04}"))
        if len(keys) >= max(asked, nodes // 4):
            break
    file = zipped(take(state_of(_in_order(objects)), StateOptions(), Configuration(), NOW))
    return file, rng.sample(keys, asked), pods
