"""A running scheduler takes another configuration over between two cycles, or says why it doesn't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import ConfigMap, Event, Namespace
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectMeta
from bosket.runtime.service import Environment
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration_watch import checked_configuration
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options
from bosket.testing.build import gang, node, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime

SYSTEM = "kai-scheduler"
NAME = "kai-scheduler-default"


def text(strategy: str, more: str = "") -> str:
    return f"""
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeplacement
    arguments: {{cpu: {strategy}, gpu: {strategy}}}
{more}
"""


def config_map(content: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=NAME, namespace=SYSTEM), data={"config.yaml": content})


async def a_cluster(*objects: Any) -> Rig:
    nodes = [node(f"n{number}", gpus=4) for number in range(3)]
    return await make_rig([Namespace(metadata=ObjectMeta(name=SYSTEM)), *nodes, queue("q"), *objects])


async def place(rig: Rig, name: str) -> str:
    """The node that a new pod with one GPU gets."""
    await rig.apply(pod_group(name, min_member=1, namespace=NAMESPACE), *gang(name, 1, gpus=1, namespace=NAMESPACE))

    async def requested() -> BindRequest | None:
        found = [
            each for each in (await rig.client.list(BindRequest, NAMESPACE)).items if each.spec.podName.startswith(name)
        ]
        return found[0] if found else None

    found: BindRequest = await rig.until(requested)
    return found.spec.selectedNode


def following(**options: Any) -> tuple[Any, list[Scheduler], list[CollectorRegistry]]:
    """A factory of schedulers, those that it made, and what they measure."""
    made: list[Scheduler] = []
    measured: list[CollectorRegistry] = []

    def factory(env: Environment) -> Scheduler:
        made.append(service(env, Options(**options)))
        measured.append(env.metrics)
        return made[-1]

    return factory, made, measured


async def give(rig: Rig, content: str) -> None:
    await rig.client.patch(ConfigMap, NAME, {"data": {"config.yaml": content}}, namespace=SYSTEM)
    await rig.clock.sleep(0.5)


async def test_a_config_map_is_in_force_as_soon_as_it_changes() -> None:
    rig = await a_cluster(config_map(text("binpack")))
    factory, _, measured = following(configuration_map=NAME)
    async with rig.running(factory):
        packed = {await place(rig, name) for name in ("a", "b")}
        await give(rig, text("spread"))
        spread = {await place(rig, name) for name in ("c", "d")}
    assert packed == {"n0"}
    assert spread == {"n1", "n2"}
    assert measured[0].get_sample_value("kai_configuration_changes_total", {"result": "taken"}) == 2


async def test_a_configuration_that_cannot_be_followed_leaves_the_one_before_in_force_and_is_told() -> None:
    rig = await a_cluster(config_map(text("spread")))
    factory, _, measured = following(configuration_map=NAME)
    async with rig.running(factory):
        first = await place(rig, "a")
        for bad in ("actions: dance", "tiers: [", text("sideways"), text("binpack", "queueDepthPerAction: 5")):
            await give(rig, bad)
        second = await place(rig, "b")
        await rig.clock.sleep(5)
        events = [
            each for each in (await rig.client.list(Event, SYSTEM)).items if each.reason == "ConfigurationRefused"
        ]
        await give(rig, text("binpack"))
        third = await place(rig, "c")
    assert first != second
    assert third in (first, second)
    assert measured[0].get_sample_value("kai_configuration_changes_total", {"result": "refused"}) == 4
    assert any("actions names 'dance'" in each.message for each in events)


async def test_a_file_is_looked_at_again_while_the_scheduler_runs(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text("binpack"))
    rig = await a_cluster()
    factory, _, _ = following(configuration_file=file, configuration=checked_configuration(file.read_text()))
    async with rig.running(factory):
        packed = {await place(rig, name) for name in ("a", "b")}
        file.unlink()
        await rig.clock.sleep(3)
        file.write_text(text("spread"))
        await rig.clock.sleep(2)
        spread = {await place(rig, name) for name in ("c", "d")}
    assert packed == {"n0"}
    assert spread == {"n1", "n2"}


async def test_a_process_that_stood_by_leads_by_the_file_as_it_is_then(tmp_path: Path) -> None:
    """It read the file when it started; another process led while the file was edited."""
    file = tmp_path / "config.yaml"
    file.write_text(text("binpack"))
    rig = await a_cluster()
    factory, _, _ = following(configuration_file=file, configuration=checked_configuration(file.read_text()))
    file.write_text(text("spread"))
    async with rig.running(factory):
        spread = {await place(rig, name) for name in ("a", "b", "c")}
    assert spread == {"n0", "n1", "n2"}


async def test_flags_hold_for_every_configuration() -> None:
    configuration = checked_configuration(text("binpack"))
    object.__setattr__(configuration.settings, "max_consolidation_preemptees", 3)
    rig = await a_cluster(config_map(text("spread")))
    factory, made, _ = following(configuration_map=NAME, configuration=configuration)
    async with rig.running(factory):
        await place(rig, "a")
        assert made[0]._configuration.settings.max_consolidation_preemptees == 3
        assert made[0]._configuration.plugins != configuration.plugins


async def test_a_usage_database_comes_and_goes() -> None:
    usage = "usageDBConfig: {clientType: builtin, usageParams: {windowSize: 1h}}"
    rig = await a_cluster(config_map(text("binpack")))
    factory, _, measured = following(configuration_map=NAME)

    def asked() -> float | None:
        return measured[0].get_sample_value("kai_usage_query_latency_milliseconds_count")

    async with rig.running(factory):
        await place(rig, "a")
        assert asked() is None
        await give(rig, text("binpack", usage))
        await rig.clock.sleep(5)
        assert asked()
        await give(rig, text("spread"))
        assert asked() is None
        await give(rig, text("spread", usage))
        await rig.clock.sleep(5)
        assert asked()
        await place(rig, "b")


async def test_a_configuration_that_was_refused_changes_nothing_in_the_scheduler() -> None:
    rig = await a_cluster()
    factory, made, _ = following()
    async with rig.running(factory):
        before = made[0]._configuration
        with pytest.raises(ConfigurationError):
            made[0].reconfigure(checked_configuration(text("sideways")))
        assert made[0]._configuration is before
