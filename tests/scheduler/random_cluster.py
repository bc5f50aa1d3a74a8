"""Random clusters for property tests: trees of queues, gangs with sub-groups, all that a pod can be in the middle of.

Small on purpose: rules break at the edges, where two things meet on one node or in one queue. Every object is made from
the seed and its own name, so that taking objects away (which is how hypothesis looks for the smallest cluster that
breaks a rule) leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from bosket.api.core import Node, Pod
from bosket.api.kai import Queue, QueueResource, SubGroup, TopologyConstraint
from bosket.api.keys import GPU_FRACTION_ANNOTATION, GPU_FRACTION_DEVICES_ANNOTATION, GPU_MEMORY_ANNOTATION
from bosket.api.object import KubeObject
from bosket.testing.build import (
    PodBuilder,
    cordoned,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    tainted,
    topology,
    within,
)
from bosket.testing.cluster import NOW

DEEPEST_QUEUE = 4
DEEPEST_SUBGROUP = 3
TAINT = "dedicated"
#: Longer ago than any pod takes to go.
LONG_AGO = NOW - 3600

#: What pods ask for. Few kinds, so that pods of one job are often alike and often not.
REQUESTS: Sequence[Callable[[PodBuilder], PodBuilder]] = (
    lambda builder: builder,
    lambda builder: builder.cpu("500m").memory("1Gi"),
    lambda builder: builder.cpu("2"),
    lambda builder: builder.gpu(1).cpu("1").memory("1Gi"),
    lambda builder: builder.gpu(1).cpu("1").memory("1Gi"),
    lambda builder: builder.gpu(2),
    lambda builder: builder.gpu(4).memory("4Gi"),
    lambda builder: builder.asks("example.com/fpga", "1"),
)
SHARING: Sequence[Callable[[PodBuilder], PodBuilder]] = (
    lambda builder: builder.shares_gpu(0.5).cpu("1"),
    lambda builder: builder.shares_gpu(0.25),
    lambda builder: builder.shares_gpu(0.4, devices=2),
    lambda builder: builder.gpu_memory(3000).memory("1Gi"),
    lambda builder: builder.gpu_memory(900, devices=2),
)
State = Callable[[PodBuilder, str], PodBuilder]  #: what becomes of a pod, given a node
STATES: Sequence[State] = (
    lambda builder, where: builder.gated_by("example.com/gate"),
    lambda builder, where: builder.running_on(where),
    lambda builder, where: builder.running_on(where),
    lambda builder, where: builder.running_on(where),
    lambda builder, where: builder.ended_on(where, "Succeeded"),
    lambda builder, where: builder.ended_on(where, "Failed"),
    lambda builder, where: builder.ended_on(where, "Pending"),  # bound, not started yet
)
RELEASING: Sequence[State] = (
    lambda builder, where: builder.running_on(where).being_deleted_at(NOW),
    lambda builder, where: builder.running_on(where).being_deleted_at(NOW),
    lambda builder, where: builder.running_on(where).being_deleted_at(NOW),
    lambda builder, where: builder.running_on(where).being_deleted_at(LONG_AGO),
)


@dataclass(frozen=True)
class RandomCluster:
    """A cluster by its seed and size; what hypothesis prints of it is enough to have it again."""

    seed: int
    nodes: int
    queues: int
    jobs: int
    releasing: bool = True  #: whether pods may be on their way out
    sharing: bool = True  #: whether pods may share GPUs
    close: bool = True  #: whether gangs may have to be close together

    def objects(self) -> list[KubeObject]:
        """The same ones each time."""
        names = [f"n{number}" for number in range(self.nodes)]
        queues = _queues(self._dice, self.queues)
        parents = {each.spec.parentQueue for each in queues}
        leaves = [each.metadata.name for each in queues if each.metadata.name not in parents]
        states = (*STATES, *RELEASING) if self.releasing else STATES
        objects: list[KubeObject] = [*(_node(self._dice(name), name) for name in names), *queues]
        objects.append(topology("racks", "zone", "rack"))
        objects += [priority_class("high", 125), priority_class("middle", 75), priority_class("low", 25)]
        for name in (f"g{number}" for number in range(self.jobs)):
            objects += _job(self._dice(name), name, leaves, names, states, sharing=self.sharing, close=self.close)
        for name in names:
            objects += _pods_of_other_schedulers(self._dice(f"on {name}"), name, releasing=self.releasing)
        return objects

    def _dice(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")


def clusters(*, releasing: bool = True, sharing: bool = True, close: bool = True) -> st.SearchStrategy[RandomCluster]:
    """Small clusters of all kinds. Without `releasing` no pod is being deleted, without `sharing` none shares GPUs,
    without `close` no gang has to be close together."""
    return st.builds(
        RandomCluster,
        seed=st.integers(0, 2**32),
        nodes=st.integers(1, 6),
        queues=st.integers(1, 8),
        jobs=st.integers(0, 8),
        releasing=st.just(releasing),
        sharing=st.just(sharing),
        close=st.just(close),
    )


def _node(dice: Random, name: str) -> Node:
    made = node(
        name,
        gpus=dice.choice((0, 1, 2, 4, 8, 8)),
        cpu=dice.choice(("2", "32", "32", "32")),
        memory=dice.choice(("2Gi", "64Gi", "64Gi", "64Gi")),
        pods=dice.choice((*(110,) * 6, 3, 1)),
        extended=dice.choice((None, None, {"example.com/fpga": "2"})),
        zone=dice.choice("ab"),
        labels={"rack": dice.choice(("r1", "r2"))} if dice.random() < 0.9 else None,
        gpu_memory=dice.choice((None, 4096, 8192, 8192)),
    )
    if dice.random() < 0.2:
        made = tainted(made, TAINT)
    return cordoned(made) if dice.random() < 0.1 else made


def _pods_of_other_schedulers(dice: Random, where: str, *, releasing: bool) -> list[Pod]:
    """Pods of nobody's job: some stay, some go and leave much room behind."""
    made = []
    if dice.random() < 0.1:
        made.append(pod(f"stays-{where}").cpu("1").gpu(1).running_on(where).build())
    if releasing and dice.random() < 0.4:
        leaving = pod(f"leaves-{where}").cpu("1").gpu(dice.choice((1, 4, 8))).running_on(where)
        made.append(leaving.being_deleted_at(NOW).build())
    return made


def _queues(dice: Callable[[str], Random], count: int) -> list[Queue]:
    made: list[Queue] = []
    depth = {"": 0}
    for number in range(count):
        name = f"q{number}"
        here = dice(name)
        parent = here.choice([each for each in depth if depth[each] < DEEPEST_QUEUE])
        depth[name] = depth[parent] + 1
        made.append(
            queue(
                name,
                parent=parent,
                quota=here.choice((-1, -1, 0, 1, 4, 8)),
                limit=here.choice((*(-1,) * 20, 0, 2, 4, 8)),
                weight=here.choice((0, 1, 2, 5)),
                priority=here.choice((None, None, 50, 200)),
                cpu=_share(here, (-1, -1, -1, -1, 0, 4000), (*(-1,) * 15, 500, 4000)),
                memory=_share(here, (-1, -1, -1, -1, 0, 4000), (*(-1,) * 15, 1500, 8000)),
            )
        )
    return made


def _share(dice: Random, quotas: Sequence[float], limits: Sequence[float]) -> QueueResource:
    return QueueResource(
        quota=dice.choice(quotas), limit=dice.choice(limits), overQuotaWeight=dice.choice((1, 1, 0, 3))
    )


def _job(
    dice: Random,
    name: str,
    queues: Sequence[str],
    nodes: Sequence[str],
    states: Sequence[State],
    *,
    sharing: bool,
    close: bool,
) -> list[KubeObject]:
    """A pod group and its pods."""
    requests = (*REQUESTS, *SHARING) if sharing else REQUESTS
    namespace = dice.choice(("default", "default", "other"))
    subgroups = tuple(_tree(dice, close=close)) if dice.random() < 0.4 else ()
    roots = sum(not subgroup.parent for subgroup in subgroups)
    minimum = dice.choice((None, 0, 1, 2, 3, 4))
    group = pod_group(
        name,
        namespace=namespace,
        min_member=minimum,
        queue=dice.choice(queues),
        priority=dice.choice(("", "", "high", "middle", "low")),
        preemptibility=dice.choice(("", "", "preemptible", "non-preemptible")),
        subgroups=subgroups,
        min_subgroup=dice.choice((None, dice.randint(1, roots))) if subgroups else None,
        created=1.7e9 + dice.randint(0, 1),
        topology=_constraint(dice, 0.25 if close else 0.0),
    )
    parents = {subgroup.parent for subgroup in subgroups}
    minima = {each.name: each.minMember or 0 for each in subgroups if each.name not in parents}
    pods: list[Pod] = []
    for pod_set, least in (minima or {"": 1 if minimum is None else minimum}).items():
        like = dice.choice(requests)
        for _ in range(least + dice.choice((-1, 0, 0, 0, 1, 2, 3))):
            builder = pod(f"{name}-{len(pods)}", namespace).of_group(name, pod_set)
            asking = dice.choice(requests) if dice.random() < 0.2 else like
            pods.append(_pod(dice, asking(builder), nodes, states))
    return [group, *pods]


def _pod(dice: Random, builder: PodBuilder, nodes: Sequence[str], states: Sequence[State]) -> Pod:
    if dice.random() < 0.1:
        builder = builder.only_on("zone", dice.choice("ab"))
    if dice.random() < 0.3:
        builder = builder.tolerates(TAINT)
    if dice.random() < 0.25:
        where = dice.choice(nodes)
        builder = dice.choice(states)(builder, where)
        if _shares(builder) and builder.node_name:
            devices = int(builder.annotations.get(GPU_FRACTION_DEVICES_ANNOTATION, 1))
            builder = builder.in_gpu_groups(*(f"{where}-gpu{number}" for number in range(devices)))
    return builder.build()


def _shares(builder: PodBuilder) -> bool:
    return GPU_FRACTION_ANNOTATION in builder.annotations or GPU_MEMORY_ANNOTATION in builder.annotations


def _constraint(dice: Random, likely: float) -> TopologyConstraint | None:
    if dice.random() >= likely:
        return None
    return dice.choice(
        (
            within("racks", "zone"),
            within("racks", "rack"),
            within("racks", "zone", "rack"),
            within("racks", "", "rack"),
            within("unknown", "zone"),
        )
    )


def _tree(dice: Random, *, close: bool) -> list[SubGroup]:
    subgroups: list[SubGroup] = []
    likely = 0.15 if close else 0.0

    def grow(parent: str | None, depth: int) -> None:
        name = f"s{len(subgroups)}"
        children = dice.randint(1, 3) if depth < DEEPEST_SUBGROUP and dice.random() < 0.3 else 0
        if children:
            minimum = dice.choice((None, dice.randint(0, children)))
            constraint = _constraint(dice, likely)
            subgroups.append(SubGroup(name=name, parent=parent, minSubGroup=minimum, topologyConstraint=constraint))
            for _ in range(children):
                grow(name, depth + 1)
        else:
            minimum = dice.choice((None, 0, 1, 1, 2, 3))
            constraint = _constraint(dice, likely)
            subgroups.append(SubGroup(name=name, parent=parent, minMember=minimum, topologyConstraint=constraint))

    for _ in range(dice.randint(1, 3)):
        grow(None, 1)
    return subgroups
