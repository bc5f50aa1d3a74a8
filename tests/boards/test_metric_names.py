"""Every metric of KAI's is there: by its name, with its labels, and of its type."""

from __future__ import annotations

import pytest

from tests.boards.exported import exported, registry

QUEUE = "queue_name queue_metadata_name queue_display_name"
#: KAI's list (facts, section 25): name, type, labels.
KAI = """
kai_e2e_scheduling_latency_milliseconds gauge
kai_open_session_latency_milliseconds gauge
kai_close_session_latency_milliseconds gauge
kai_plugin_scheduling_latency_milliseconds gauge plugin OnSession
kai_action_scheduling_latency_milliseconds gauge action
kai_task_scheduling_latency_milliseconds histogram
kai_task_bind_latency_milliseconds histogram
kai_podgroups_scheduled_by_action counter action
kai_podgroups_acted_on_by_action counter action
kai_scenarios_simulation_by_action counter action
kai_scenarios_filtered_by_action counter action
kai_total_preemption_attempts counter
kai_queue_fair_share_cpu_cores gauge QUEUE
kai_queue_fair_share_memory_gb gauge QUEUE
kai_queue_fair_share_gpu gauge QUEUE
kai_queue_cpu_usage gauge QUEUE
kai_queue_memory_usage gauge QUEUE
kai_queue_gpu_usage gauge QUEUE
kai_usage_query_latency_milliseconds histogram
kai_pod_group_evicted_pods_total counter podgroup namespace uid nodepool action
kai_scenario_search_jobs_total counter action result reduced_budget
kai_scenario_search_action_budget_configured_seconds gauge action
kai_scenario_search_job_budget_configured_seconds gauge
kai_scenario_search_generator_budget_configured_seconds gauge generator
kai_scenario_search_action_budget_exhausted_total counter action
kai_scenario_search_duration_seconds histogram action generator result
kai_scenario_search_scenarios_total counter action generator state
kai_queue_info gauge QUEUE
kai_queue_deserved_gpus gauge QUEUE
kai_queue_quota_cpu_cores gauge QUEUE
kai_queue_quota_memory_bytes gauge QUEUE
kai_queue_allocated_gpus gauge QUEUE
kai_queue_allocated_cpu_cores gauge QUEUE
kai_queue_allocated_memory_bytes gauge QUEUE
controller_runtime_reconcile_total counter controller result
controller_runtime_reconcile_errors_total counter controller
controller_runtime_reconcile_time_seconds histogram controller
controller_runtime_max_concurrent_reconciles gauge controller
controller_runtime_active_workers gauge controller
workqueue_depth gauge name
workqueue_adds_total counter name
workqueue_retries_total counter name
workqueue_queue_duration_seconds histogram name
workqueue_work_duration_seconds histogram name
rest_client_requests_total counter code method
"""
EXPORTED = exported(registry())


@pytest.mark.parametrize("line", KAI.strip().splitlines())
def test_a_metric_is_there_with_its_type_and_labels(line: str) -> None:
    name, kind, *labels = line.replace("QUEUE", QUEUE).split()
    found = EXPORTED[name]
    assert set(found.labels) == set(labels)
    assert found.help
    # The library ends the names of counters in _total; those of KAI that don't are gauges, which rate() takes as well.
    assert found.type == ("gauge" if kind == "counter" and not name.endswith("_total") else kind)
