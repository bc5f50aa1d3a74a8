"""Where nodes are kept apart by what they are for, pods with GPUs and pods without go to their own."""

from bosket.api.keys import CPU_WORKER_LABEL, GPU_WORKER_LABEL
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot, WorkerLabels
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, placements, reasons

BARE = node("bare")
FOR_CPUS = node("cpus", labels={CPU_WORKER_LABEL: ""})
FOR_GPUS = node("gpus", labels={GPU_WORKER_LABEL: ""})
WITH_GPU = pod("g-0").gpu(1).of_group("g").build()
WITHOUT = pod("g-0").cpu("1").of_group("g").build()


def snapshot(*objects: KubeObject, restricted: bool = True) -> Snapshot:
    state = ClusterState(StateOptions(worker_labels=WorkerLabels() if restricted else None))
    for each in (queue("q"), pod_group("g"), *objects):
        state.put(each)
    return state.snapshot(NOW)


def one(*objects: KubeObject, restricted: bool = True) -> Decisions:
    return decide(snapshot(*objects, restricted=restricted), Configuration())


def test_pods_go_to_nodes_of_their_own_sort() -> None:
    assert placements(one(FOR_CPUS, FOR_GPUS, WITH_GPU)) == {"g-0": "gpus"}
    assert placements(one(FOR_CPUS, FOR_GPUS, WITHOUT)) == {"g-0": "cpus"}
    assert placements(one(FOR_CPUS, FOR_GPUS, WITH_GPU, restricted=False)) == {"g-0": "cpus"}


def test_they_wait_where_there_is_none_and_say_why() -> None:
    assert "1 node(s) are not for pods without GPUs." in reasons(one(FOR_GPUS, WITHOUT))["g"]
    assert "1 node(s) are not for pods with GPUs." in reasons(one(FOR_CPUS, WITH_GPU))["g"]


def test_nodes_that_are_for_neither_are_not_there() -> None:
    assert snapshot(BARE, FOR_CPUS).nodes.names == ["cpus"]
    assert snapshot(BARE, FOR_CPUS, restricted=False).nodes.names == ["bare", "cpus"]


def test_a_node_that_loses_its_label_goes() -> None:
    assert snapshot(FOR_CPUS, node("cpus")).nodes.names == []


def test_gpus_where_no_pod_with_gpus_may_go_are_nobodys_share() -> None:
    waiting = pod("g-0").gpu(16).of_group("g").build()
    assert one(FOR_CPUS, FOR_GPUS, waiting).fair_share["q"][0] == 8
    assert one(FOR_CPUS, FOR_GPUS, waiting, restricted=False).fair_share["q"][0] == 16
