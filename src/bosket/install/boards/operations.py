"""The board for those who run the system: is it fast, does it keep up, what fails."""

from __future__ import annotations

from bosket.install.boards.panel import Board, Panel, Query, Row, Unit, Variable


def _rate(metric: str, *labels: str, where: str = "") -> str:
    selector = ", ".join(filter(None, ('instance=~"$instance"', where)))
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric}{{{selector}}}[$__rate_interval]))"


def _quantiles(metric: str, *labels: str, where: str = "") -> tuple[Query, ...]:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    buckets = _rate(f"{metric}_bucket", "le", *labels, where=where)
    return tuple(
        Query(f"histogram_quantile({quantile}, {buckets})", f"{legend} p{quantile * 100:g}".strip())
        for quantile in ((0.5, 0.9, 0.99) if not labels else (0.99,))
    )


def _latest(metric: str, *labels: str) -> str:
    by = f" by ({', '.join(labels)})" if labels else ""
    return f'max{by} ({metric}{{instance=~"$instance"}})'


def _one(title: str, unit: Unit, query: str, legend: str, text: str = "") -> Panel:
    return Panel(title, unit, (Query(query, legend),), text)


_CYCLES = Row(
    "Scheduling cycles",
    (
        Panel(
            "A cycle",
            "ms",
            (
                Query(_latest("kai_e2e_scheduling_latency_milliseconds"), "whole"),
                Query(_latest("kai_open_session_latency_milliseconds"), "snapshot and opening"),
                Query(_latest("kai_close_session_latency_milliseconds"), "closing"),
            ),
            "The last cycle that had something to decide. The scheduler rests twice as long after it.",
        ),
        _one(
            "By action",
            "ms",
            _latest("kai_action_scheduling_latency_milliseconds", "action"),
            "{{action}}",
            "Reclaim, preempt and consolidation search for victims; they cost when the cluster is full.",
        ),
        _one(
            "By plugin",
            "ms",
            f"topk(8, {_latest('kai_plugin_scheduling_latency_milliseconds', 'plugin')})",
            "{{plugin}}",
            "What plugins take when a session opens; the eight slowest.",
        ),
        Panel(
            "From a pod's creation to the decision",
            "ms",
            _quantiles("kai_task_scheduling_latency_milliseconds"),
            "Of pods that were placed; waiting for room counts.",
        ),
        Panel("Writing a bind request", "ms", _quantiles("kai_task_bind_latency_milliseconds")),
        _one("Pods decided on", "ops", _rate("kai_bind_requests_total"), "pods"),
    ),
)

_SEARCHES = Row(
    "Making room",
    (
        Panel(
            "Jobs tried and placed",
            "ops",
            (
                Query(_rate("kai_podgroups_acted_on_by_action", "action"), "{{action}} tried"),
                Query(_rate("kai_podgroups_scheduled_by_action", "action"), "{{action}} placed"),
            ),
        ),
        Panel(
            "Pods evicted",
            "ops",
            (
                Query(_rate("kai_pod_group_evicted_pods_total", "action"), "{{action}}"),
                Query(_rate("kai_total_preemption_attempts"), "jobs preempted for"),
            ),
            "Much of it for long means that queues take each other's place: look at the board of fairness.",
        ),
        _one(
            "Searches by result",
            "ops",
            _rate("kai_scenario_search_jobs_total", "action", "result"),
            "{{action}} {{result}}",
            "deadline_exhausted: the budget was not enough, and a larger one might have found room.",
        ),
        _one(
            "Scenarios",
            "ops",
            _rate("kai_scenario_search_scenarios_total", "generator", "state"),
            "{{generator}} {{state}}",
        ),
        Panel(
            "Victims ruled out without trying, and simulations",
            "ops",
            (
                Query(_rate("kai_scenarios_filtered_by_action", "action"), "{{action}} ruled out"),
                Query(_rate("kai_scenarios_simulation_by_action", "action"), "{{action}} simulated"),
            ),
        ),
        Panel("Time of a search", "s", _quantiles("kai_scenario_search_duration_seconds", "action", "generator")),
        _one(
            "Budgets used up",
            "ops",
            _rate("kai_scenario_search_action_budget_exhausted_total", "action"),
            "{{action}}",
            "Jobs further back in the queues weren't tried in these cycles.",
        ),
        Panel(
            "Budgets",
            "s",
            (
                Query(_latest("kai_scenario_search_action_budget_configured_seconds", "action"), "{{action}}"),
                Query(_latest("kai_scenario_search_generator_budget_configured_seconds", "generator"), "{{generator}}"),
                Query(_latest("kai_scenario_search_job_budget_configured_seconds"), "a job"),
            ),
            "As configured, in KAI's seconds; 0 is without end.",
        ),
    ),
)

_FRAGMENTATION = Row(
    "Free GPUs that nobody can use",
    (
        _one(
            "Fragmented share",
            "percentunit",
            _latest("bosket_scheduler_fragmented_gpus_ratio"),
            "fragmented",
            "GPUs that are free but too small or too scattered for the pods that this cluster sees, of all GPUs.",
        ),
        _one(
            "Fragmented for a shape of pods",
            "percentunit",
            f"topk(8, {_latest('bosket_scheduler_fragmented_gpus_by_shape_ratio', 'shape')})",
            "{{shape}}",
            "The eight shapes that lose most. The placement strategy `fragmentation` keeps both low.",
        ),
    ),
)

_CONTROLLERS = Row(
    "Controllers",
    (
        _one(
            "Reconciliations",
            "ops",
            _rate("controller_runtime_reconcile_total", "controller"),
            "{{controller}}",
        ),
        _one(
            "Failed",
            "ops",
            _rate("controller_runtime_reconcile_errors_total", "controller"),
            "{{controller}}",
            "They are tried again, later each time; the log says why.",
        ),
        Panel("Time of one", "s", _quantiles("controller_runtime_reconcile_time_seconds", "controller")),
        Panel(
            "Workers",
            "short",
            (
                Query(_latest("controller_runtime_active_workers", "controller"), "{{controller}}"),
                Query(_latest("controller_runtime_max_concurrent_reconciles", "controller"), "{{controller}}, at most"),
            ),
            "Always at the most: there are too few.",
        ),
        _one("Keys that wait", "short", _latest("workqueue_depth", "name"), "{{name}}"),
        Panel("How long keys wait", "s", _quantiles("workqueue_queue_duration_seconds", "name")),
        Panel("How long keys are in hand", "s", _quantiles("workqueue_work_duration_seconds", "name")),
        Panel(
            "Added, and again after a failure",
            "ops",
            (
                Query(_rate("workqueue_adds_total", "name"), "{{name}}"),
                Query(_rate("workqueue_retries_total", "name"), "{{name}} again"),
            ),
        ),
    ),
)

_PROCESS = Row(
    "Process and API server",
    (
        _one("Requests", "reqps", _rate("rest_client_requests_total", "code", "method"), "{{method}} {{code}}"),
        Panel("Time until the answer", "s", _quantiles("rest_client_request_duration_seconds", "verb")),
        _one("CPU", "percentunit", _rate("process_cpu_seconds_total", "instance"), "{{instance}}"),
        _one("Memory", "bytes", _latest("process_resident_memory_bytes", "instance"), "{{instance}}"),
        _one(
            "Leads",
            "short",
            _latest("leader_election_master_status", "name", "instance"),
            "{{name}} {{instance}}",
            "One instance of each service has 1.",
        ),
        _one("Events", "ops", _rate("bosket_events_total", "outcome"), "{{outcome}}"),
    ),
)

OPERATIONS = Board(
    uid="bosket-operations",
    title="Bosket: operations",
    text="Is the scheduler fast, do controllers keep up, what fails.",
    rows=(_CYCLES, _SEARCHES, _FRAGMENTATION, _CONTROLLERS, _PROCESS),
    variables=(Variable("instance", "controller_runtime_max_concurrent_reconciles", "instance"),),
)
