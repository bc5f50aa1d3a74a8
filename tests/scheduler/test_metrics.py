"""The scheduler measures itself by KAI's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from bosket.api.core.pod import Pod
from bosket.api.object import KubeObject
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice, SearchBudgets
from bosket.scheduler.decide import decide
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.solver.budget import STEPS_PER_SECOND
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, snapshot_of


class Measured:
    """A registry, and cycles that are reported to it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = SchedulerMetrics(self.registry)

    def cycle(self, *objects: KubeObject | Sequence[KubeObject], configuration: Configuration | None = None) -> None:
        snapshot = snapshot_of(*objects)
        self.metrics.snapshot_taken(0.5)
        decisions = decide(snapshot, configuration or Configuration(), self.metrics.watch)
        self.metrics.decided(snapshot, decisions, 2.0)

    def value(self, name: str, **labels: str) -> Any:
        """None where there is no such sample."""
        return self.registry.get_sample_value(f"kai_{name}", labels)

    def queues(self, name: str) -> dict[tuple[str, str, str], float]:
        labels = ("queue_name", "queue_metadata_name", "queue_display_name")
        return {
            tuple(sample.labels[label] for label in labels): sample.value  # type: ignore[misc]
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"kai_queue_fair_share_{name}"
        }


def born(seconds_ago: float, made: Pod) -> Pod:
    created = format_time(NOW - seconds_ago)
    return replace(made, metadata=replace(made.metadata, creationTimestamp=created))


def test_the_time_of_a_cycle_is_taken_apart() -> None:
    measured = Measured()
    measured.cycle(node("n"), queue("q"), pod_group("g"), gang("g", 1))
    assert measured.value("e2e_scheduling_latency_milliseconds") == 2000.0
    opened = measured.value("open_session_latency_milliseconds")
    plugin = measured.value("plugin_scheduling_latency_milliseconds", plugin="proportion", OnSession="OnSessionOpen")
    assert opened > 500.0 + plugin > 500.0
    assert measured.value("action_scheduling_latency_milliseconds", action="allocate") > 0
    assert measured.value("close_session_latency_milliseconds") > 0


def test_pod_groups_are_counted_by_the_action_that_tried_and_placed_them() -> None:
    measured = Measured()
    objects = [
        node("n", gpus=3),
        queue("q"),
        *(pod_group(name) for name in ("bound", "grows", "large", "absent")),
        *gang("bound", 1),
        *gang("grows", 2),
        *gang("large", 1, gpus=5),
    ]
    measured.cycle(objects)
    assert measured.value("podgroups_scheduled_by_action", action="allocate") == 2
    assert measured.value("podgroups_acted_on_by_action", action="allocate") == 3
    assert measured.value("bind_requests_total") == 3
    measured.cycle(objects)
    assert measured.value("podgroups_scheduled_by_action", action="allocate") == 4


def test_what_has_to_wait_for_resources_counts_as_scheduled_too() -> None:
    measured = Measured()
    leaving = pod("old").gpu(1).running_on("n").being_deleted_at(NOW).build()
    measured.cycle(node("n", gpus=1), queue("q"), pod_group("g"), gang("g", 1), leaving)
    assert measured.value("podgroups_scheduled_by_action", action="allocate") == 1
    assert measured.value("podgroups_acted_on_by_action", action="allocate") == 1
    assert measured.value("bind_requests_total") == 0


def test_the_time_from_creation_to_decision_is_observed_for_each_pod() -> None:
    measured = Measured()
    pods = [born(0, each) for each in gang("a", 2)] + [born(4, each) for each in gang("b", 1)]
    measured.cycle(node("n"), queue("q"), pod_group("a"), pod_group("b"), pods)
    assert measured.value("task_scheduling_latency_milliseconds_count") == 3
    assert measured.value("task_scheduling_latency_milliseconds_sum") == 4000
    assert measured.value("task_scheduling_latency_milliseconds_bucket", le="5.0") == 2
    assert measured.value("task_scheduling_latency_milliseconds_bucket", le="2560.0") == 2


def test_fair_shares_are_those_of_the_last_cycle_by_display_name_and_name() -> None:
    measured = Measured()
    named = replace(queue("q"), spec=replace(queue("q").spec, displayName="Team Q"))
    running = pod("g-0").gpu(2).cpu("3").memory("4G").of_group("g").running_on("n").build()
    measured.cycle(node("n", gpus=2), named, queue("gone"), pod_group("g"), running)
    assert measured.queues("gpu") == {("Team Q", "q", "Team Q"): 2.0, ("gone", "gone", ""): 0.0}
    assert measured.queues("cpu_cores")["Team Q", "q", "Team Q"] == pytest.approx(3.0)
    assert measured.queues("memory_gb")["Team Q", "q", "Team Q"] == pytest.approx(4.0)
    measured.cycle(node("n", gpus=2), named)
    assert set(measured.queues("gpu")) == {("Team Q", "q", "Team Q")}


def test_where_nobody_divides_there_is_no_fair_share() -> None:
    measured = Measured()
    measured.cycle(node("n"), queue("q"), configuration=Configuration(plugins=(PluginChoice("predicates"),)))
    assert measured.queues("gpu") == {}


def preemption(*waiting: str) -> list[KubeObject]:
    running = pod("low").gpu(1).of_group("low").running_on("n").build()
    return [
        node("n", gpus=1),
        queue("q"),
        priority_class("high", 90),
        pod_group("low"),
        running,
        *(pod_group(name, priority="high") for name in waiting),
        *(each for name in waiting for each in gang(name, 1)),
    ]


def test_a_search_for_victims_is_counted_and_timed() -> None:
    measured = Measured()
    measured.cycle(preemption("high-a"))
    assert measured.value("podgroups_acted_on_by_action", action="preempt") == 1
    assert measured.value("podgroups_scheduled_by_action", action="preempt") == 1
    assert measured.value("total_preemption_attempts") == 1
    solved = {"action": "preempt", "result": "solved"}
    assert measured.value("scenario_search_jobs_total", **solved, reduced_budget="false") == 1
    assert measured.value("scenario_search_duration_seconds_count", **solved, generator="NodeLocalGreedy") == 1
    assert 0 < measured.value("scenario_search_duration_seconds_sum", **solved, generator="NodeLocalGreedy") < 10
    for state in ("emitted", "simulated"):
        labels = {"action": "preempt", "generator": "NodeLocalGreedy", "state": state}
        assert measured.value("scenario_search_scenarios_total", **labels) == 1
    assert measured.value("scenarios_simulation_by_action", action="preempt") == 1


def test_victims_that_make_too_little_room_are_counted_without_a_simulation() -> None:
    measured = Measured()
    large = [pod_group("large", priority="high"), *gang("large", 1, gpus=2)]
    more = pod("low-1").gpu(1).of_group("low-1").running_on("n").build()
    objects = [node("n", gpus=2), *preemption()[1:], pod_group("low-1"), more, *large]
    measured.cycle(objects)
    assert measured.value("scenarios_filtered_by_action", action="preempt") == 1
    assert measured.value("scenarios_simulation_by_action", action="preempt") == 1


def test_a_budget_that_is_used_up_is_told_of_with_the_jobs_that_were_not_tried() -> None:
    measured = Measured()
    budgets = SearchBudgets(action={"default": 1 / STEPS_PER_SECOND})
    measured.cycle(preemption("high-a", "high-b"), configuration=Configuration(search_budgets=budgets))
    assert measured.value("scenario_search_action_budget_exhausted_total", action="preempt") == 1
    labels = {"action": "preempt", "result": "not_attempted", "reduced_budget": "true"}
    assert measured.value("scenario_search_jobs_total", **labels) == 1


def test_budgets_are_shown_as_they_are_configured() -> None:
    registry = CollectorRegistry()
    SchedulerMetrics(registry, Configuration(search_budgets=SearchBudgets(action={"default": 7.0, "reclaim": 3.0})))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kai_scenario_search_{name}", labels)

    assert value("action_budget_configured_seconds", action="reclaim") == 3.0
    assert value("action_budget_configured_seconds", action="preempt") == 7.0
    assert value("action_budget_configured_seconds", action="allocate") is None
    assert value("job_budget_configured_seconds") == 240.0
    assert value("generator_budget_configured_seconds", generator="NodeLocalGreedy") == 30.0
    assert value("action_budget_exhausted_total", action="preempt") == 0


def test_the_time_to_write_a_bind_request_is_observed() -> None:
    measured = Measured()
    measured.metrics.requested(0.004)
    assert measured.value("task_bind_latency_milliseconds_sum") == pytest.approx(4.0)
    assert measured.value("task_bind_latency_milliseconds_bucket", le="5.0") == 1


def test_names_begin_as_they_are_told_to() -> None:
    registry = CollectorRegistry()
    SchedulerMetrics(registry, Configuration(), "team")
    names = {family.name for family in registry.collect()}
    assert {"team_queue_fair_share_gpu", "team_scenario_search_jobs", "team_total_preemption_attempts"} <= names
    assert not any(name.startswith("kai") for name in names)
