"""Metrics of searches for victims, by KAI's names. `SchedulerMetrics` reports each cycle."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bosket.scheduler.configuration.configuration import DEFAULT_KEY, Configuration
from bosket.scheduler.model.search_statistics import SearchStatistics

#: Of durations, in seconds: 0.001, 0.002 … 32.768.
_BUCKETS: Final = tuple(0.001 * 2**power for power in range(16))
#: The actions that search.
_SEARCHING: Final = ("consolidation", "reclaim", "preempt")


class SearchMetrics:
    """The collectors of searches in one registry."""

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=namespace, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=namespace, registry=registry)

        # These two only ever grow, but their names don't end in "_total", as the library wants it of counters.
        self._simulated = gauge("scenarios_simulation_by_action", "Scenarios simulated, so far", "action")
        self._filtered = gauge(
            "scenarios_filtered_by_action", "Sets of victims that could not make room, so far", "action"
        )
        self._jobs = counter(
            "scenario_search_jobs", "Jobs that victims were looked for", "action", "result", "reduced_budget"
        )
        self._exhausted = counter(
            "scenario_search_action_budget_exhausted", "Cycles in which an action used its budget up", "action"
        )
        self._scenarios = counter(
            "scenario_search_scenarios", "Scenarios, by what became of them", "action", "generator", "state"
        )
        self._seconds = Histogram(
            "scenario_search_duration_seconds",
            "Time that a generator of scenarios took for one job",
            ("action", "generator", "result"),
            namespace=namespace,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._action_budget = gauge(
            "scenario_search_action_budget_configured_seconds", "Budget of an action; 0 is without end", "action"
        )
        self._job_budget = gauge(
            "scenario_search_job_budget_configured_seconds", "Budget of a search for one job; 0 is without end"
        )
        self._generator_budget = gauge(
            "scenario_search_generator_budget_configured_seconds",
            "Budget of a generator; 0 is without end",
            "generator",
        )
        self._turn_seconds: list[float] = []

    def show_budgets(self, configuration: Configuration) -> None:
        """What is configured, in KAI's seconds."""
        budgets = configuration.search_budgets
        for action in configuration.actions:
            if action in _SEARCHING:
                seconds = budgets.action.get(action, budgets.action.get(DEFAULT_KEY, 0.0))
                self._action_budget.labels(action).set(seconds)
                self._exhausted.labels(action)  # 0 is shown, too
        self._job_budget.set(budgets.job)
        for generator, seconds in budgets.generator.items():
            if generator != DEFAULT_KEY:
                self._generator_budget.labels(generator).set(seconds)

    def turn_took(self, seconds: float) -> None:
        """Of a generator; in the order of the calls of `add`."""
        self._turn_seconds.append(seconds)

    def add(self, statistics: SearchStatistics) -> None:
        """A cycle has ended."""
        for (action, result, reduced), count in statistics.jobs.items():
            self._jobs.labels(action, result, str(reduced).lower()).inc(count)
        for action in statistics.exhausted:
            self._exhausted.labels(action).inc()
        for (action, generator, state), count in statistics.scenarios.items():
            self._scenarios.labels(action, generator, state).inc(count)
            if state == "simulated":
                self._simulated.labels(action).inc(count)
        for action, count in statistics.filtered.items():
            self._filtered.labels(action).inc(count)
        for turn, seconds in zip(statistics.turns, self._turn_seconds, strict=False):
            self._seconds.labels(*turn).observe(seconds)
        self._turn_seconds.clear()
