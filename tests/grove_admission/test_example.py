"""The example of disaggregated inference does on the embedded cluster what docs/grove.md says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bosket.api.core import Pod
from bosket.api.grove import PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.grove.operator_configuration_file import parse_operator_configuration
from bosket.api.object import KubeObject
from bosket.api.time import parse_time
from bosket.embedded.cluster import EmbeddedCluster
from bosket.install.values import default_values
from bosket.kube.client import Client
from bosket.runtime.clock import LoopClock

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def documents(*names: str) -> list[dict[str, Any]]:
    found = [each for name in names for each in yaml.safe_load_all((EXAMPLES / name).read_text()) if each]
    for each in found:
        if each["kind"] == "PodCliqueSet":
            each["metadata"]["namespace"] = "default"
    return found


def ready_at(pod: Pod) -> float:
    (condition,) = (each for each in pod.status.conditions if each.type == "Ready")
    assert condition.lastTransitionTime is not None
    return parse_time(condition.lastTransitionTime)


async def all_run(client: Client, pods: int) -> bool:
    found = (await client.list(Pod, "default")).items
    return len(found) == pods and all(pod.status.phase == "Running" for pod in found)


@pytest.mark.looptime
async def test_a_disaggregated_system_starts_in_order_scales_and_goes() -> None:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=8, racks=4, zones=2, clock=clock) as cluster:
        await cluster.wait_ready()
        client = cluster.client()

        async def until(pods: int) -> None:
            deadline = clock.monotonic() + 300
            while not await all_run(client, pods):
                assert clock.monotonic() < deadline, "waited in vain"
                await clock.sleep(1)

        for each in documents("00-queues.yaml", "grove/00-topology.yaml", "grove/10-disaggregated.yaml"):
            await client.create(each)
        await until(9)
        pods = (await client.list(Pod, "default")).items
        leaders = [ready_at(pod) for pod in pods if "-0-decode-0-decode-leader" in pod.metadata.name]
        routers = [ready_at(pod) for pod in pods if "router" in pod.metadata.name]
        assert max(leaders) <= min(routers)
        assert {each.metadata.name for each in (await client.list(PodGang, "default")).items} == {
            "llm-0",
            "llm-0-decode-0",
        }
        await client.scale(PodCliqueScalingGroup, "llm-0-decode", "default", 3)
        await until(11)
        await client.delete(PodCliqueSet, "llm", "default")
        await until(0)

        async def is_gone(kind: type[KubeObject]) -> bool:
            return not (await client.list(kind, "default")).items

        assert await is_gone(PodGang)


def test_the_example_of_a_configuration_is_one() -> None:
    said: list[str] = []
    text = (EXAMPLES / "grove" / "operator-configuration.yaml").read_text()
    configuration = parse_operator_configuration(text, report=said.append)
    assert said == []
    exempt = configuration.authorizer.exemptServiceAccountUserNames
    assert {*default_values()["grove"]["config"]["authorizer"]["exemptServiceAccountUserNames"]} <= {*exempt}
