"""Closing plugins receive the decisions of a session, and can't change them."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Never

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.loop import service
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.options import Options
from bosket.scheduler.plugins import BUILT_IN
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, placements, snapshot_of
from tests.rig import NAMESPACE, make_rig

OBJECTS = [node("n1", gpus=2), queue("q"), pod_group("g"), *gang("g", 1), pod_group("h"), *gang("h", 1, gpus=8)]


class Listens:
    """Records what it receives."""

    reported: ClassVar[list[Any]] = []

    def __init__(self, arguments: Any) -> None:
        self.name = arguments.get("name", "")

    def open(self, session: Any) -> None:
        self.session = session

    def close(self, snapshot: Any, decisions: Any) -> None:
        self.reported.append((self.name, snapshot, decisions))


class Fails(Listens):
    def close(self, snapshot: Any, decisions: Any) -> Never:
        raise ZeroDivisionError("division by zero")


class Meddles(Listens):
    def close(self, snapshot: Any, decisions: Any) -> None:
        for change in (
            lambda: setattr(decisions, "operations", ()),
            lambda: decisions.fair_share.update(q=(0.0, 0.0, 0.0)),
            lambda: decisions.queue_allocated.pop("q"),
            lambda: setattr(snapshot, "jobs", {}),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()
        self.reported.append(("meddled", snapshot, decisions))


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listens, "reported", [])
    for plugin in (Listens, Fails, Meddles):
        monkeypatch.setitem(BUILT_IN, plugin.__name__.lower(), plugin)


def choosing(*names: Any) -> Any:
    return Configuration(plugins=(*Configuration().plugins, *(PluginChoice(name, {"name": name}) for name in names)))


def test_a_plugin_is_told_what_was_decided_on_which_snapshot() -> None:
    snapshot = snapshot_of(*OBJECTS)
    decisions = decide(snapshot, choosing("listens"))
    assert Listens.reported == [("listens", snapshot, decisions)]
    assert placements(decisions) == {"g-0": "n1"}
    assert [each.job.key.name for each in decisions.waiting] == ["h"]


def test_nothing_that_it_is_told_can_be_changed() -> None:
    decide(snapshot_of(*OBJECTS), choosing("meddles"))
    assert [name for name, _, _ in Listens.reported] == ["meddled"]


def test_one_that_fails_changes_no_decision_and_keeps_no_other_from_being_told() -> None:
    snapshot = snapshot_of(*OBJECTS)
    decisions = decide(snapshot, choosing("fails", "listens"))
    assert placements(decisions) == placements(decide(snapshot, Configuration()))
    assert decisions.plugin_failures == (("fails", "ZeroDivisionError: division by zero"),)
    assert [name for name, _, _ in Listens.reported] == ["listens"]


def test_the_time_that_it_takes_is_measured_as_kai_does_and_failures_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    snapshot = snapshot_of(*OBJECTS)
    metrics.decided(snapshot, decide(snapshot, choosing("fails"), metrics.watch), 0.1)
    text = generate_latest(registry).decode()
    assert 'kai_plugin_scheduling_latency_milliseconds{OnSession="OnSessionClose",plugin="fails"}' in text
    assert 'bosket_scheduler_plugin_close_failures_total{plugin="fails"} 1.0' in text
    assert snapshot.now == NOW


@pytest.mark.looptime
async def test_the_running_scheduler_says_in_its_log_which_plugin_failed(caplog: Any) -> None:
    rig = await make_rig([node("n1", gpus=1), queue("q"), pod_group("g", namespace=NAMESPACE)])
    await rig.apply(*gang("g", 1, namespace=NAMESPACE))
    with caplog.at_level(logging.WARNING):
        async with rig.running(lambda env: service(env, Options(configuration=choosing("fails")))):
            await rig.until(lambda: rig.events("Scheduled"))
    assert "plugin fails failed when the session closed: ZeroDivisionError: division by zero" in caplog.messages
