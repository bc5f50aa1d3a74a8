"""Pods that share GPUs move closer together, on their own node too; that only for one job a cycle."""

from bosket.api.object import KubeObject
from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import Objects, configured, decided, evictions, pipelines

CONSOLIDATING = configured("allocate", "consolidation")
HOSTNAME = "kubernetes.io/hostname"


def scattered(*names: str) -> list[Objects]:
    """Nodes with two GPUs, each shared by one pod, which can't leave its node."""
    parts = []
    for name in names:
        for device in range(2):
            small = f"{name}-{device}"
            running = pod(small).shares_gpu(0.3).in_gpu_groups(f"gpu-{small}").of_group(small)
            parts += [pod_group(small), running.only_on(HOSTNAME, name).running_on(name).build()]
    return [[node(name, gpus=2) for name in names], queue("q"), parts]


def wanting_a_gpu(name: str, on: str) -> list[KubeObject]:
    return [pod_group(name), pod(f"{name}-0").gpu(1).of_group(name).only_on(HOSTNAME, on).build()]


def test_a_pod_moves_to_another_shared_gpu_of_its_node() -> None:
    decisions = decided(*scattered("n0"), job("new"), configuration=CONSOLIDATING)
    assert set(evictions(decisions).values()) == {"new"}
    assert pipelines(decisions) == dict.fromkeys([*evictions(decisions), "new-0"], "n0")


def test_that_is_done_for_one_job_a_cycle() -> None:
    decisions = decided(*scattered("n0", "n1"), job("a"), job("b"), configuration=CONSOLIDATING)
    assert len(evictions(decisions)) == 1
    assert len({"a-0", "b-0"} & pipelines(decisions).keys()) == 1


def test_moves_from_node_to_node_go_on_in_the_same_cycle() -> None:
    """`large` needs all of n1, which one pod must leave for n2."""
    decisions = decided(
        *scattered("n0"),
        [node("n1", gpus=4), node("n2", gpus=1)],
        job("in-the-way", on="n1"),
        wanting_a_gpu("small", on="n0"),
        job("large", gpus=4),
        configuration=CONSOLIDATING,
    )
    assert pipelines(decisions)["small-0"] == "n0"
    assert pipelines(decisions)["large-0"] == "n1"
    assert evictions(decisions)["in-the-way-0"] == "large"
