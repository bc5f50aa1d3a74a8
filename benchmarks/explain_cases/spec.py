"""Jobs that wait for what they themselves say: gates, members, sub-groups, selectors, affinity, topology, volumes."""

from __future__ import annotations

import msgspec

from benchmarks.explain_cases.case import (
    KEY,
    LABEL,
    NEVER,
    NOT_NOW,
    RACK,
    Draw,
    Made,
    labelled,
    made,
    selecting,
    two_queues,
)
from benchmarks.explain_cases.room import in_racks
from bosket.api.core import (
    Affinity,
    ConfigMapEnvSource,
    EnvFromSource,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimVolumeSource,
    PodAffinityTerm,
    PodAntiAffinity,
    Volume,
)
from bosket.api.kai import SubGroup
from bosket.api.object import LabelSelector
from bosket.testing.build import (
    cordoned,
    gang,
    node,
    pod,
    pod_group,
    tainted,
    within,
)
from bosket.testing.cluster import NOW


def gated(draw: Draw) -> Made:
    size = draw.rng.randint(1, 4)
    pods = [
        pod(f"asked-{number}", KEY.namespace).gpu(1).of_group(KEY.name).gated_by("example.com/wait").build()
        for number in range(size)
    ]
    group = pod_group(KEY.name, min_member=size, namespace=KEY.namespace, created=NOW - 60)
    return made(NEVER, ("NotReady", "GatesClosed"), "spec", two_queues(), draw.machines(), group, pods)


def members_missing(draw: Draw) -> Made:
    there = draw.rng.randint(1, 3)
    return made(
        NEVER,
        "NotReady",
        "spec",
        two_queues(),
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
    return made(NEVER, "NotReady", "spec", two_queues(), draw.machines(), group, pods)


def mistaken_subgroup(draw: Draw) -> Made:
    group = pod_group(
        KEY.name, namespace=KEY.namespace, created=NOW - 60, subgroups=(SubGroup(name="work", minMember=1),)
    )
    pods = gang(KEY.name, draw.rng.randint(1, 3), namespace="ml", subgroup="wrok")
    return made(NEVER, ("NotReady", "UnknownSubGroup"), "spec", two_queues(), draw.machines(), group, pods)


def unknown_topology(draw: Draw) -> Made:
    return made(
        NEVER,
        ("PodSchedulingErrors", "TopologyUnusable"),
        "topology",
        two_queues(),
        draw.machines(),
        draw.asked(2, topology=within("nowhere", required=RACK)),
    )


def unknown_level(draw: Draw) -> Made:
    racks, _ = in_racks(draw)
    return made(
        NEVER,
        ("PodSchedulingErrors", "TopologyUnusable"),
        "topology",
        two_queues(),
        racks,
        draw.asked(2, topology=within("cluster", required="example.com/row")),
    )


def no_node_has_the_label(draw: Draw) -> Made:
    asked = [selecting(each) for each in draw.asked()]
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), asked)


def node_affinity_of_no_node(draw: Draw) -> Made:
    among = NodeSelectorRequirement(key=LABEL, operator="In", values=("fast", "faster"))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(among,)),))
    affinity = Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required))
    asked = [selecting(each, affinity=affinity) for each in draw.asked()]
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), asked)


def nodes_with_the_label_are_full(draw: Draw) -> Made:
    busy = draw.filled()
    fast = [labelled(each, {LABEL: "fast"}) for each in draw.machines()]
    spare = node("spare", gpus=draw.gpus)
    return made(
        NOT_NOW,
        "PodSchedulingErrors",
        "nodes",
        two_queues(),
        fast,
        spare,
        busy,
        [selecting(each) for each in draw.asked()],
    )


def all_nodes_tainted(draw: Draw) -> Made:
    nodes = [tainted(each, "example.com/reserved", "true") for each in draw.machines()]  # type: ignore[arg-type]
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), nodes, draw.asked())


def all_nodes_cordoned(draw: Draw) -> Made:
    nodes = [cordoned(each) for each in draw.machines()]  # type: ignore[arg-type]
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), nodes, draw.asked())


def nodes_not_ready(draw: Draw) -> Made:
    nodes = [
        msgspec.structs.replace(
            each, status=msgspec.structs.replace(each.status, conditions=(NodeCondition(type="Ready", status="False"),))
        )
        for each in draw.machines()
        if isinstance(each, Node)
    ]
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), nodes, draw.asked())


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
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), group, pods)


def volume_claim_missing(draw: Draw) -> Made:
    volume = Volume(name="data", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName="data"))
    asked = [selecting(each, volumes=(volume,)) for each in draw.asked()]
    return made(NEVER, "PodSchedulingErrors", "spec", two_queues(), draw.machines(), asked)


def config_map_missing(draw: Draw) -> Made:
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name="settings"))
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).gpu(1).with_container(envFrom=(source,)).of_group(KEY.name).build()
    return made(NEVER, "PodSchedulingErrors", "spec", two_queues(), draw.machines(), group, asked)


BUILDERS = (
    gated,
    members_missing,
    members_of_a_subgroup_missing,
    mistaken_subgroup,
    unknown_topology,
    unknown_level,
    no_node_has_the_label,
    node_affinity_of_no_node,
    nodes_with_the_label_are_full,
    all_nodes_tainted,
    all_nodes_cordoned,
    nodes_not_ready,
    neighbours_excluded,
    volume_claim_missing,
    config_map_missing,
)
