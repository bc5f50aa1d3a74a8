"""Jobs that wait for room: on nodes, in racks, on shared GPUs, or where others are ending."""

from __future__ import annotations

import msgspec

from benchmarks.explain_cases.case import (
    KEY,
    NEVER,
    NOT_NOW,
    RACK,
    Draw,
    Made,
    Objects,
    made,
    two_queues,
)
from bosket.api.core import (
    ContainerPort,
)
from bosket.testing.build import (
    job,
    node,
    pod,
    pod_group,
    queue,
    topology,
    within,
)
from bosket.testing.cluster import NOW


def larger_than_any_node(draw: Draw) -> Made:
    return made(
        NEVER,
        "PodSchedulingErrors",
        "nodes",
        two_queues(),
        draw.machines(),
        draw.asked(gpus=draw.gpus + draw.rng.randint(1, draw.gpus)),
    )


def larger_than_any_node_of_a_full_cluster(draw: Draw) -> Made:
    asked = draw.asked(gpus=draw.gpus + draw.rng.randint(1, draw.gpus))
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), draw.filled(), asked)


def larger_than_any_node_and_over_limit(draw: Draw) -> Made:
    """Both keep it waiting; that it could never start is what counts."""
    running = job("mine", gpus=draw.gpus, on="node-0", namespace="ml", created=NOW - 3600)
    need = draw.gpus + draw.rng.randint(1, draw.gpus)
    asked = draw.asked(gpus=need)
    return made(NEVER, "PodSchedulingErrors", "nodes", queue("q", limit=need), draw.machines(), running, asked)


def more_cpu_than_any_node(draw: Draw) -> Made:
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).cpu(str(draw.rng.randint(65, 128))).of_group(KEY.name).build()
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), group, asked)


def more_memory_than_any_node(draw: Draw) -> Made:
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).memory(f"{draw.rng.randint(513, 900)}Gi").of_group(KEY.name).build()
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), group, asked)


def larger_than_the_cluster(draw: Draw) -> Made:
    return made(
        NEVER,
        "PodSchedulingErrors",
        "nodes",
        two_queues(),
        draw.machines(),
        draw.asked(draw.nodes + draw.rng.randint(1, 3), gpus=draw.gpus),
    )


def gpu_memory_larger_than_any_device(draw: Draw) -> Made:
    nodes = [node(f"node-{number}", gpus=draw.gpus, gpu_memory=40_960) for number in range(draw.nodes)]
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).gpu_memory(draw.rng.choice((60_000, 80_000))).of_group(KEY.name).build()
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), nodes, group, asked)


def no_node_has_the_resource(draw: Draw) -> Made:
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).gpu(1).asks("example.com/nic", "1").of_group(KEY.name).build()
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), group, asked)


def no_nodes_at_all(draw: Draw) -> Made:
    return made(NEVER, "PodSchedulingErrors", "nodes", two_queues(), draw.asked(gpus=draw.rng.randint(1, 4)))


def cluster_is_full(draw: Draw) -> Made:
    return made(
        NOT_NOW,
        "PodSchedulingErrors",
        "nodes",
        two_queues(),
        draw.machines(),
        draw.filled(),
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def fragmented(draw: Draw) -> Made:
    free = draw.rng.randint(1, draw.gpus - 1)
    need = draw.rng.randint(free + 1, min(draw.gpus, free * draw.nodes)) if free * draw.nodes > free else draw.gpus
    return made(
        NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), draw.filled(free), draw.asked(gpus=need)
    )


def nodes_hold_no_more_pods(draw: Draw) -> Made:
    nodes = [node(f"node-{number}", gpus=draw.gpus, pods=1) for number in range(draw.nodes)]
    busy = [
        each
        for number in range(draw.nodes)
        for each in job(
            f"busy-{number}",
            on=f"node-{number}",
            queue="others",
            namespace="others",
            preemptibility="non-preemptible",
            created=NOW - 7200,
        )
    ]
    return made(NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), nodes, busy, draw.asked())


def host_port_taken(draw: Draw) -> Made:
    port = ContainerPort(containerPort=80, hostPort=8080)
    objects: Objects = []
    for number in range(draw.nodes):
        other = pod(f"serves-{number}", "others").gpu(1).with_container(ports=(port,)).of_group(f"serves-{number}")
        objects += [
            pod_group(
                f"serves-{number}",
                queue="others",
                namespace="others",
                preemptibility="non-preemptible",
                created=NOW - 7200,
            ),
            other.running_on(f"node-{number}").build(),
        ]
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).gpu(1).with_container(ports=(port,)).of_group(KEY.name).build()
    return made(NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), objects, group, asked)


def shared_gpus_are_full(draw: Draw) -> Made:
    objects: Objects = []
    for number in range(draw.nodes):
        for device in range(draw.gpus):
            name = f"busy-{number}-{device}"
            part = pod(name, "others").shares_gpu(0.7).in_gpu_groups(f"shared-{name}").of_group(name)
            objects += [
                pod_group(
                    name,
                    queue="others",
                    namespace="others",
                    preemptibility="non-preemptible",
                    created=NOW - 7200,
                ),
                part.running_on(f"node-{number}").build(),
            ]
    group = pod_group(KEY.name, namespace=KEY.namespace, created=NOW - 60)
    asked = pod("asked-0", KEY.namespace).shares_gpu(draw.rng.choice((0.4, 0.5))).of_group(KEY.name).build()
    return made(NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), objects, group, asked)


def in_racks(draw: Draw) -> tuple[Objects, int]:
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
    racks, _ = in_racks(draw)
    return made(
        NEVER,
        ("PodSchedulingErrors", "Not enough resources for the workload"),
        "topology",
        two_queues(),
        racks,
        draw.asked(draw.rng.randint(3, 4), gpus=draw.gpus, topology=within("cluster", required=RACK)),
    )


def racks_are_full(draw: Draw) -> Made:
    racks, count = in_racks(draw)
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
    return made(
        NOT_NOW,
        ("PodSchedulingErrors", "Not enough resources for the workload"),
        "topology",
        two_queues(),
        racks,
        busy,
        draw.asked(2, gpus=draw.gpus, topology=within("cluster", required=RACK)),
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
    return made(
        "waiting-for-termination",
        "WaitingForTermination",
        "nodes",
        two_queues(),
        draw.machines(),
        group,
        pods,
        draw.asked(gpus=draw.rng.randint(1, draw.gpus)),
    )


def victims_are_ending_but_not_enough(draw: Draw) -> Made:
    """Half of a node is being freed; the job needs more than that."""
    draw.nodes = 1
    half = draw.gpus // 2
    going = pod("going-0", "others").gpu(half).of_group("going").running_on("node-0").being_deleted_at(NOW).build()
    groups = [pod_group("going", queue="others", namespace="others", created=NOW - 3600)]
    stays = job(
        "stays",
        gpus=draw.gpus - half,
        on="node-0",
        queue="others",
        namespace="others",
        preemptibility="non-preemptible",
        created=NOW - 3600,
    )
    asked = draw.asked(gpus=draw.gpus)
    return made(NOT_NOW, "PodSchedulingErrors", "nodes", two_queues(), draw.machines(), groups, going, stays, asked)


BUILDERS = (
    larger_than_any_node,
    larger_than_any_node_of_a_full_cluster,
    larger_than_any_node_and_over_limit,
    more_cpu_than_any_node,
    more_memory_than_any_node,
    larger_than_the_cluster,
    gpu_memory_larger_than_any_device,
    no_node_has_the_resource,
    no_nodes_at_all,
    cluster_is_full,
    fragmented,
    nodes_hold_no_more_pods,
    host_port_taken,
    shared_gpus_are_full,
    larger_than_any_rack,
    racks_are_full,
    victims_are_ending,
    victims_are_ending_but_not_enough,
)
