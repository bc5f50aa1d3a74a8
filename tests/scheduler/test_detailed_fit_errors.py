"""`--detailed-fit-errors`: messages name what each node lacks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.api.core.node import Node
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.loop import service
from bosket.scheduler.model.reason import MOST_NODES_NAMED
from bosket.scheduler.options import Options
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, state_of
from tests.rig import NAMESPACE, make_rig

DETAILED = Configuration(settings=Settings(detailed_fit_errors=True))


def reported(*objects: KubeObject, configuration: Configuration = DETAILED) -> str:
    (waiting,) = decided(*objects, configuration=configuration).waiting
    return waiting.text


def busy(name: str, on: str, **amounts: Any) -> Pod:
    """Somebody else's pod."""
    made = pod(name).gpu(amounts.get("gpus", 0)).cpu(amounts.get("cpu", "0")).memory(amounts.get("memory", "0"))
    return made.running_on(on).build()


def cordoned(each: Node) -> Node:
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, unschedulable=True))


def test_each_node_is_named_with_what_is_asked_for_used_and_there() -> None:
    text = reported(
        node("n1", gpus=2),
        cordoned(node("n2", gpus=4)),
        node("n3", gpus=4),
        queue("q"),
        busy("x", "n1", gpus=1),
        busy("y", "n3", gpus=3),
        pod_group("g"),
        *gang("g", 1, gpus=2),
    )
    assert text == (
        "Resources were not found for pod default/g-0 due to: \n"
        "no nodes with enough resources were found.\n"
        "<n1>: n1 didn't have enough resources: GPUs, requested: 2, used: 1, capacity: 2.\n"
        "<n2>: node(s) were unschedulable.\n"
        "<n3>: n3 didn't have enough resources: GPUs, requested: 2, used: 3, capacity: 4."
    )


def test_several_things_that_a_node_lacks_are_all_named_in_units_for_people() -> None:
    large = pod("g-0").of_group("g").cpu("2500m").memory("6G").build()
    text = reported(
        node("n1", cpu="4", memory="8G"), queue("q"), pod_group("g"), large, busy("x", "n1", cpu="2", memory="4G")
    )
    assert "n1 didn't have enough resources: CPU cores, requested: 2.5, used: 2, capacity: 4" in text
    assert "n1 didn't have enough resources: memory, requested: 6, used: 4, capacity: 8" in text


def test_what_shared_gpus_lack_is_named() -> None:
    shares = pod("g-0").of_group("g").shares_gpu(0.5).build()
    text = reported(node("n1", gpus=1), queue("q"), pod_group("g"), shares, busy("x", "n1", gpus=1))
    assert "<n1>: node(s) didn't have enough resources: GPUs." in text


def test_of_many_nodes_the_first_are_named_and_the_others_counted() -> None:
    count = MOST_NODES_NAMED + 7
    nodes = [node(f"n{number:03}", gpus=2) for number in range(count)]
    others = [busy(f"x{number}", f"n{number:03}", gpus=1) for number in range(count)]
    text = reported(*nodes, *others, queue("q"), pod_group("g"), *gang("g", 1, gpus=2)).split("\n")
    assert text[-1] == "and 7 other nodes."
    assert len(text) == MOST_NODES_NAMED + 3


def test_without_the_flag_nodes_are_counted() -> None:
    objects = [node("n1", gpus=2), busy("x", "n1", gpus=1), queue("q"), pod_group("g"), *gang("g", 1, gpus=2)]
    assert "1 node(s) didn't have enough resources: GPUs" in reported(*objects, configuration=Configuration())


def test_a_recording_knows_of_the_flag() -> None:
    state = state_of([node("n1"), queue("q")])
    again = read(zipped(take(state, StateOptions(), DETAILED, NOW)))
    assert again.configuration.settings.detailed_fit_errors


@pytest.mark.looptime
async def test_pods_that_wait_are_told() -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q"), pod_group("g", namespace=NAMESPACE), busy("x", "n1", gpus=1)])
    await rig.apply(*gang("g", 1, gpus=2, namespace=NAMESPACE))

    async def condition() -> str | None:
        found = await rig.client.get(Pod, "g-0", NAMESPACE)
        return next((each.message for each in found.status.conditions if each.type == "PodScheduled"), None)

    async with rig.running(lambda env: service(env, Options(configuration=DETAILED))):
        text = await rig.until(condition)
    assert "<n1>: n1 didn't have enough resources: GPUs, requested: 2, used: 1, capacity: 2." in text
