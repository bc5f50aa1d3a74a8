"""Topologies reach a running scheduler, also when their definition is installed while it runs; and its recordings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.batch import Job
from bosket.api.core.pod import Pod
from bosket.api.kai import BindRequest
from bosket.api.kai.podgroup import PodGroup
from bosket.api.node_topology import NodeResourceTopology
from bosket.runtime.service import Environment
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.file import parse_configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, numa_zones, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of
from tests.numa.definition import definition
from tests.numa.zoned import aligning, guaranteed, seen_in, zones_by_pod
from tests.rig import NAMESPACE, Rig, make_rig


def scheduler(environment: Environment) -> Scheduler:
    return service(environment, Options(configuration=aligning()))


def member(name: str) -> Pod:
    return pod(name, NAMESPACE).cpu("3").memory("1Gi").guaranteed().of_group(name).build()


def group(name: str) -> PodGroup:
    return pod_group(name, namespace=NAMESPACE)


async def request_for(rig: Rig, name: str) -> BindRequest | None:
    found = (await rig.client.list(BindRequest, NAMESPACE)).items
    return next((each for each in found if each.spec.podName == name), None)


async def expected_in(rig: Rig, name: str) -> list[str]:
    request = await rig.until(lambda: request_for(rig, name))
    return [each.zone for each in request.spec.predictedNUMAZones]


@pytest.mark.looptime
async def test_a_definition_that_is_installed_later_is_found_and_a_topology_that_goes_is_forgotten() -> None:
    rig = await make_rig([node("n"), queue("q"), group("a"), member("a")])
    zones = numa_zones("n", {"cpu": "4"}, {"cpu": "4"})
    async with rig.running(scheduler):
        assert await expected_in(rig, "a") == []  # it starts without
        await rig.client.create(definition())
        await rig.client.create(zones)
        await rig.clock.sleep(20)
        await rig.apply(group("b"), member("b"))
        assert await expected_in(rig, "b") == ["node-0"]
        await rig.apply(group("c"), member("c"))
        assert await expected_in(rig, "c") == ["node-1"]
        await rig.client.delete(NodeResourceTopology, "n")
        await rig.apply(group("d"), member("d"))
        assert await expected_in(rig, "d") == []


@pytest.mark.looptime
async def test_a_topology_that_changes_is_followed() -> None:
    rig = await make_rig([node("n"), queue("q")])
    await rig.client.create(definition())
    await rig.client.create(numa_zones("n", {"cpu": "2"}, {"cpu": "2"}))
    async with rig.running(scheduler):
        await rig.apply(group("a"), member("a"))
        await rig.clock.sleep(5)
        assert await request_for(rig, "a") is None
        small = await rig.client.get(NodeResourceTopology, "n")
        wide = numa_zones("n", {"cpu": "2"}, {"cpu": "4"})
        await rig.client.modify(
            small, type(small)(metadata=small.metadata, attributes=wide.attributes, zones=wide.zones)
        )
        assert await expected_in(rig, "a") == ["node-1"]


def test_a_recording_keeps_zones_and_who_is_in_them() -> None:
    running = seen_in(guaranteed("r").running_on("n"), {"node-0": {"cpu": "3"}})
    state = state_of(
        [
            queue("q"), node("n"), numa_zones("n", {"cpu": "4"}, {"cpu": "4"}),
            pod_group("r"), running.build(), pod_group("g"), guaranteed("g").build(),
        ]
    )  # fmt: skip
    recorded = read(zipped(take(state, StateOptions(), aligning(), NOW)))
    decisions = decide(recorded.snapshot(NOW), recorded.configuration)
    assert zones_by_pod(decisions) == {"g": {"node-1": {"cpu": "3"}}}


def test_the_example_is_the_definition_that_schedulers_read() -> None:
    examples = Path(__file__).parents[2] / "examples" / "numa"
    written = yaml.safe_load((examples / "00-definition.yaml").read_text())
    assert msgspec.convert(written, CustomResourceDefinition) == definition()
    zones = msgspec.convert(yaml.safe_load((examples / "10-zones.yaml").read_text()), NodeResourceTopology)
    job = msgspec.convert(yaml.safe_load((examples / "20-pods.yaml").read_text()), Job)
    pods = [replace(member(f"p{i}"), spec=job.spec.template.spec) for i in range(3)]
    groups = [group(f"p{i}") for i in range(3)]
    configuration = parse_configuration((examples / "scheduler.yaml").read_text(), known_actions=ACTIONS)
    decisions = decide(state_of([queue("q"), node("node-000"), zones, *groups, *pods]).snapshot(NOW), configuration)
    assert zones_by_pod(decisions) == {
        "p0": {"node-0": {"cpu": "8", "nvidia.com/gpu": "3"}},
        "p1": {"node-1": {"cpu": "8", "nvidia.com/gpu": "3"}},
    }
