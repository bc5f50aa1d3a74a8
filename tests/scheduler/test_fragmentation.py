"""The strategy `fragmentation`: pods go where what stays free is of most use to the pods that the cluster sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError, PluginChoice
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.fragmentation import LIMITED, FreeGpus
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.pod_mix import PodMix, PodShape
from bosket.scheduler.model.resource import CPU, GPU, MEMORY
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.fragmentation import LeastFragmentation
from bosket.scheduler.plugins.nodeplacement import NodePlacement
from bosket.testing.build import gang, node, pod, pod_group, queue, tainted
from bosket.testing.cluster import decided, placements, snapshot_of
from tests.scheduler.random_cluster import RandomCluster, clusters


def choosing(**arguments: str) -> Configuration:
    """The default plugins, with these arguments of `nodeplacement`."""
    plugins = Configuration().plugins
    return Configuration(
        plugins=tuple(PluginChoice(each.name, arguments) if each.name == "nodeplacement" else each for each in plugins)
    )


FRAGMENTATION = choosing(gpu="fragmentation", cpu="binpack")


def placed(*objects: KubeObject) -> dict[str, str]:
    return placements(decided(queue("q"), pod_group("g"), *objects, configuration=FRAGMENTATION))


def test_a_pod_without_gpus_leaves_free_gpus_their_cpu() -> None:
    """Bin-packing would put it onto the node with less CPU, whose GPUs could then not be used."""
    nodes = (node("busy", gpus=2, cpu="32"), node("free", gpus=2, cpu="16"))
    others = [pod(f"r{number}").gpu(1).cpu("4").running_on("busy").build() for number in range(2)]
    asked = pod("g-0").cpu("10").of_group("g").build()
    assert placed(*nodes, *others, asked) == {"g-0": "busy"}


def test_a_whole_node_is_kept_for_pods_that_want_all_of_it() -> None:
    nodes = (node("a", gpus=8), node("b", gpus=8))
    others = (pod("large").gpu(8).cpu("1").running_on("a").build(), pod("small").gpu(1).running_on("b").build())
    assert placed(*nodes, node("c", gpus=8), *others, *gang("g", 1)) == {"g-0": "b"}


def test_a_pod_goes_to_the_model_that_fewer_others_can_use() -> None:
    """`a` is good for everybody, `b` only for pods that don't ask for a model. Equal otherwise, `a` has the name that
    comes first."""
    nodes = (node("a", gpus=2, model="new"), node("b", gpus=2, model="old"), node("c", gpus=4, model="new"))
    others = [pod(f"r{n}").gpu(1).only_on("model", "new").running_on("c").build() for n in range(3)]
    assert placed(*nodes, *others, *gang("g", 1)) == {"g-0": "b"}


def test_a_tainted_node_is_of_no_use_to_pods_that_do_not_tolerate_it() -> None:
    nodes = (node("a", gpus=2), tainted(node("b", gpus=2), "kept"), node("c", gpus=4))
    others = [pod(f"r{n}").gpu(1).running_on("c").build() for n in range(4)]
    asked = pod("g-0").gpu(1).tolerates("kept").of_group("g").build()
    assert placed(*nodes, *others, asked) == {"g-0": "b"}


def test_the_device_is_chosen_that_stays_usable() -> None:
    """On the fuller device 10 % would be left, of use to nobody; on the other one half a GPU is, which others want."""
    running = [
        pod("half").shares_gpu(0.5).in_gpu_groups("fuller").running_on("n").build(),
        pod("other-half").shares_gpu(0.5).in_gpu_groups("gone").running_on("n").build(),
        pod("tenth").shares_gpu(0.1).in_gpu_groups("emptier").running_on("n").build(),
        pod("last").shares_gpu(0.5).in_gpu_groups("gone").running_on("n").build(),
    ]
    cluster = (queue("q"), pod_group("g"), node("n", gpus=3, gpu_memory=10_000), *running)
    asked = pod("g-0").shares_gpu(0.4).of_group("g").build()
    found = decided(*cluster, asked, configuration=FRAGMENTATION)
    assert [bind.gpu_groups for bind in found.binds] == [("emptier",)]
    assert [bind.gpu_groups for bind in decided(*cluster, asked).binds] == [("fuller",)], "bin-packing does otherwise"


def test_a_gang_is_placed_pod_by_pod_and_all_or_nothing() -> None:
    nodes = (node("a", gpus=4), node("b", gpus=4))
    large = pod("large").gpu(4).running_on("a").build()
    found = placed(*nodes, large, *gang("g", 4))
    assert set(found.values()) == {"b"}
    assert not placed(*nodes, large, pod_group("h", min_member=5), *gang("h", 5))


def test_memory_counts_as_cpu_does() -> None:
    nodes = (node("a", gpus=2, memory="64Gi"), node("b", gpus=2, memory="512Gi"))
    mix = [pod(f"r{n}").gpu(1).memory("32Gi").running_on("b").build() for n in range(2)]
    asked = pod("g-0").memory("60Gi").of_group("g").build()
    assert placed(*nodes, *mix, asked) == {"g-0": "b"}


def test_without_any_pod_to_learn_from_nodes_are_packed() -> None:
    asked = pod("g-0").cpu("1").of_group("g").build()
    assert placed(node("a", cpu="8"), node("b", cpu="4"), asked) == {"g-0": "b"}


@pytest.mark.parametrize("arguments", [{"gpu": "heap"}, {"cpu": "fragmentation"}, {"gpu": "Fragmentation"}])
def test_other_strategies_are_refused_by_name(arguments: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=f"plugin nodeplacement: '{next(iter(arguments.values()))}'"):
        NodePlacement(arguments)


def test_a_mix_that_is_configured_counts_instead_of_the_pods_that_are_seen() -> None:
    """By the pods that are seen all of `b` is wanted; by the mix nobody has any use for its GPUs."""
    nodes = (node("a", gpus=8, cpu="16"), node("b", gpus=8, cpu="8"), node("c", gpus=8))
    cluster = (queue("q"), pod_group("g"), *nodes, pod("r").gpu(8).cpu("1").running_on("c").build())
    asked = pod("g-0").cpu("8").of_group("g").build()
    mix = "[{gpus: 1, cpu: 16}]"
    fixed = choosing(gpu="fragmentation", cpu="binpack", podMix=mix)
    assert placements(decided(*cluster, asked, configuration=fixed)) == {"g-0": "b"}
    other = choosing(gpu="fragmentation", cpu="spread", podMix="[{gpus: 1, cpu: 4, nodeSelector: {x: y}}]")
    assert placements(decided(*cluster, asked, configuration=other)) == {"g-0": "a"}, "the strategy for CPU decides"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("7", "podMix must be a list"),
        ("[]", "podMix must be a list"),
        ("[{gpus: 1, weigth: 2}]", r"podMix\[0\]: .*weigth"),
        ("[{gpus: 1}, {cpu: 4}]", r"podMix\[1\] must have one of gpus"),
        ("[{gpus: 1, gpuFraction: 0.5}]", "must have one of gpus"),
        ("[{gpus: -1}]", "must have one of gpus"),
        ("[{gpuFraction: 1.5}]", "gpuFraction is at most 1"),
        ("[{gpus: 1, cpu: many}]", r"podMix\[0\]: "),
        ("[{gpus: 1, weight: 0}]", r"podMix\[0\].weight is 0"),
        ("[{", "podMix: "),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        NodePlacement({"gpu": "fragmentation", "podMix": text})


# The measure


def plain_worth(session: Session, mix: PodMix, row: int, cpu: float, memory: float, devices: list[float]) -> float:
    """What is usable of a node's free devices, each a part of one, in plain loops."""
    found = 0.0
    for shape, part in zip(mix.shapes, mix.parts, strict=True):
        size = session.nodes.shared.sizes[row]
        share = shape.share
        each = 1.0 if share is None else math.ceil(100 * share.memory_on(size) / size - 0.01) / 100
        if share is not None and not share.is_possible_on(size):
            continue
        wanted = shape.gpus if share is None else share.devices * each
        fitting = [device for device in devices if device >= each - 1e-9]
        if share is None and len(fitting) < shape.gpus:
            fitting = []
        room = min(cpu / max(shape.cpu, 1e-6), memory / max(shape.memory, 1e-6))
        if room < 1 - 1e-9 or not shape.node_test()(session.snapshot.nodes.nodes[row]):
            continue
        usable = sum(fitting)
        found += part * ((1 - LIMITED) * usable + LIMITED * min(usable, room * wanted))
    return found


def free_of(session: Session, row: int) -> tuple[float, float, list[float]]:
    ledger = session.nodes
    cpu, memory, gpus = (float(ledger.idle[place, row] + ledger.releasing[place, row]) for place in (CPU, MEMORY, GPU))
    size = ledger.shared.sizes[row]
    rooms = [group.room(size) for group in ledger.shared.on(NodeRow(row)).values()]
    return cpu, memory, [1.0] * int(gpus) + [int(100 * room / size + 0.01) / 100 for room in rooms if room > 0]


def plain_growth(session: Session, mix: PodMix, pod_class: PodClass, row: int) -> float:
    cpu, memory, devices = free_of(session, row)
    before = plain_worth(session, mix, row, cpu, memory, devices)
    cpu, memory = cpu - pod_class.amounts[CPU], memory - pod_class.amounts[MEMORY]
    if pod_class.share is None:
        gpus = int(pod_class.amounts[GPU])
        left = sorted(devices)[: len(devices) - gpus]
        return before - plain_worth(session, mix, row, cpu, memory, left) - gpus
    size = session.nodes.shared.sizes[row]
    asked = math.ceil(100 * pod_class.share.memory_on(size) / size - 0.01) / 100
    best = max(
        plain_worth(session, mix, row, cpu, memory, [*devices[:at], device - asked, *devices[at + 1 :]])
        for at, device in enumerate(devices)
        if device >= asked - 1e-9
    )
    return before - best - asked


@given(clusters(releasing=True, sharing=True, close=False))
@settings(max_examples=150)
def test_growth_is_that_of_plain_loops_while_pods_come_and_go(cluster: RandomCluster) -> None:
    snapshot = snapshot_of(cluster.objects())
    session = open_session(snapshot, FRAGMENTATION)
    mix = snapshot.pod_mix
    free = FreeGpus(snapshot, session.nodes, mix)
    classes = {task.pod_class for job in snapshot.jobs.values() for task in job.tasks}
    statement = Statement(session)
    for job in session.jobs.candidates():
        for pod_class in sorted(classes, key=lambda each: each.index):
            (rows,) = session.nodes.fit(pod_class).nonzero()
            if pod_class.share is not None and pod_class.share.devices > 1:
                continue
            growth = free.growth(pod_class, rows)
            for row, found in zip(rows.tolist(), growth.tolist(), strict=True):
                assert found == pytest.approx(plain_growth(session, mix, pod_class, row), abs=1e-7)
                alone = free.growth(pod_class, np.array([row]))
                assert alone[0] == found, "the same to the bit, whoever is asked about besides"
        place_job(session, statement, job)


@given(clusters(releasing=True, sharing=True, close=False))
@settings(max_examples=100)
def test_scores_that_follow_changes_are_those_of_a_fresh_look(cluster: RandomCluster) -> None:
    snapshot = snapshot_of(cluster.objects())
    session = open_session(snapshot, FRAGMENTATION)
    statement = Statement(session)
    (least,) = [each for each in session.extensions.node_scores if each.by_arrays]
    for number, job in enumerate(session.jobs.candidates()):
        start = statement.length
        place_job(session, statement, job)
        if number % 3 == 2:
            statement.rollback(start)
        fresh = FreeGpus(snapshot, session.nodes, snapshot.pod_mix)
        for task in job.job.tasks:
            view = session.views.of(task.pod_class)
            view.catch_up()
            (rows,) = (view.scores > -np.inf).nonzero()
            again = fresh.growth(task.pod_class, rows)
            assert isinstance(least, LeastFragmentation)
            known = least._free.growth(task.pod_class, rows)
            assert known.tolist() == again.tolist()
            for row in rows.tolist():
                total = sum(
                    each.score(task.pod_class, NodeRow(row))
                    for each in session.extensions.node_scores
                    if each.concerns(task.pod_class)
                )
                assert view.score(NodeRow(row)) == pytest.approx(total, rel=1e-12)


@given(clusters(releasing=True, sharing=True, close=False))
@settings(max_examples=50)
def test_the_same_snapshot_gives_the_same_decisions(cluster: RandomCluster) -> None:
    snapshot = snapshot_of(cluster.objects())
    first, second = decide(snapshot, FRAGMENTATION), decide(snapshot, FRAGMENTATION)
    assert [(bind.task.key, bind.node, bind.gpu_groups) for bind in first.binds] == [
        (bind.task.key, bind.node, bind.gpu_groups) for bind in second.binds
    ]


def test_a_shape_tells_people_what_it_asks_for() -> None:
    shape = PodShape(cpu=12_000, memory=48 * 2**30, gpus=2, node_selector=(("model", "G2"),))
    assert str(shape) == "2 GPU, 12 CPU, 48 GiB, model=G2"
