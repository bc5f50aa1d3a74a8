"""Each broken tree of queues, set of shards and promise of resources is found: exactly that, where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bosket.api.core import Node
from bosket.api.kai import Config, Queue, SchedulingShard
from bosket.api.keys import NODE_POOL_LABEL
from bosket.api.object import Condition, KubeObject
from bosket.api.time import format_time
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.tools.doctor.finding import Finding, Severity
from tests.diagnosis.installed import NOW, deployment, edited, findings, installed, labelled, queue_with, without


def only(objects: list[KubeObject], **fields: Any) -> Finding:
    """The one finding."""
    found = findings(objects, **fields)
    assert len(found) == 1, [(each.code, each.object, each.problem) for each in found]
    assert found[0].problem
    assert found[0].remedy
    return found[0]


# ── the tree ──


def test_a_parent_that_is_not_there() -> None:
    found = only([*installed(), queue("lost", parent="research")])
    assert (found.code, found.object, found.field) == ("queue-parent-missing", "Queue lost", "spec.parentQueue")
    assert 'no queue "research"' in found.problem


def test_a_circle_of_queues_is_told_once() -> None:
    found = only([*installed(), queue("a", parent="b"), queue("b", parent="c"), queue("c", parent="a")])
    assert (found.code, found.object) == ("queue-circle", "Queue a")
    assert "a → b → c → a" in found.problem


def test_a_queue_that_is_its_own_parent() -> None:
    assert only([*installed(), queue("a", parent="a")]).code == "queue-circle"


def test_no_queues_at_all() -> None:
    broken = [obj for obj in installed() if type(obj).__name__ not in ("Queue", "PodGroup", "Pod")]
    assert [each.code for each in findings(broken)] == ["queue-none", "shard-without-queues"]


def test_no_default_queue() -> None:
    assert only(without(installed(), Queue, "default-queue")).code == "queue-default-missing"


def test_a_queue_without_limits_is_fine() -> None:
    amounts = {"gpu": {"quota": 0}, "cpu": {"quota": 0}, "memory": {"quota": 0}}
    assert findings(edited(installed(), Queue, "default-queue", "spec.resources", amounts)) == []


def test_a_queue_that_says_nothing_about_resources() -> None:
    found = only(edited(installed(), Queue, "default-queue", "spec.resources", None))
    assert (found.code, found.field) == ("queue-resources-missing", "spec.resources")


@pytest.mark.parametrize("key", ["quota", "limit", "overQuotaWeight"])
def test_an_amount_that_makes_no_sense(key: str) -> None:
    found = only(edited(installed(), Queue, "default-queue", f"spec.resources.cpu.{key}", -5))
    assert (found.code, found.field) == ("queue-amount-negative", f"spec.resources.cpu.{key}")


def test_a_limit_of_zero() -> None:
    found = only(edited(installed(), Queue, "default-queue", "spec.resources.memory.limit", 0))
    assert (found.code, found.severity) == ("queue-limit-zero", Severity.ERROR)
    assert found.command == (
        'kubectl patch queue default-queue --type merge -p \'{"spec":{"resources":{"memory":{"limit":2199024}}}}\''
    ), "which is what all nodes have, in megabytes"


def test_a_queue_for_work_without_gpus_is_in_order() -> None:
    assert findings([*installed(), queue_with("cpu-only", quota=0, limit=0)]) == []


def test_a_limit_below_the_quota() -> None:
    found = only([*installed(), queue_with("small", quota=4, limit=2)])
    assert (found.code, found.object, found.field) == (
        "queue-limit-below-quota",
        "Queue small",
        "spec.resources.gpu.limit",
    )


def test_children_that_are_promised_more_than_their_parent_has() -> None:
    found = only([*installed(), queue_with("greedy", quota=12)])
    assert (found.code, found.object, found.field) == (
        "queue-children-quota",
        "Queue default-parent-queue",
        "spec.resources.gpu.quota",
    )
    assert "20 together" in found.problem


def test_children_that_are_promised_more_than_their_parent_may_use() -> None:
    parent = queue("p", quota=-1, limit=-1)
    broken = edited([*installed(), parent, queue("c", parent="p", quota=9)], Queue, "p", "spec.resources.gpu.limit", 8)
    codes = {(each.code, each.field) for each in findings(broken)}
    assert ("queue-children-quota", "spec.resources.gpu.limit") in codes


def test_jobs_in_a_queue_that_has_others_below_it() -> None:
    found = only([*installed(), pod_group("high", queue="default-parent-queue"), *gang("high", 1)])
    assert (found.code, found.object) == ("queue-inner-with-jobs", "Queue default-parent-queue")
    assert "default-queue, team" in found.problem


def test_jobs_in_a_queue_that_is_not_there() -> None:
    found = only([*installed(), pod_group("lost", queue="nowhere"), *gang("lost", 1)])
    assert (found.code, found.object, found.field) == ("podgroup-queue-unknown", "PodGroup default/lost", "spec.queue")


def test_a_queue_in_another_shard_than_its_parent() -> None:
    broken = labelled(two_shards(), Queue, "default-queue", node_pool="b")
    found = only(broken)
    assert (found.code, found.object) == ("queue-parent-in-other-shard", "Queue default-queue")


# ── shards ──


def shard(name: str, value: str, **spec: Any) -> SchedulingShard:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"partitionLabelValue": value, **spec}}, SchedulingShard
    )


def two_shards() -> list[KubeObject]:
    """The installed cluster, and a pool `b` with a node and a queue of its own."""
    more: list[KubeObject] = [
        shard("b", "b"),
        deployment("kai-scheduler-b"),
        node("b0", rack="r0", labels={NODE_POOL_LABEL: "b"}),
        queue("queue-of-b"),
    ]
    return labelled([*installed(), *more], Queue, "queue-of-b", node_pool="b")


def test_two_shards_are_in_order() -> None:
    assert findings(two_shards()) == []


def test_two_shards_with_the_same_value() -> None:
    broken = [*two_shards(), shard("c", "b"), deployment("kai-scheduler-c")]
    found = only(broken)
    assert (found.code, found.object, found.field) == (
        "shard-duplicate",
        "SchedulingShard c",
        "spec.partitionLabelValue",
    )


def test_a_shard_without_nodes() -> None:
    assert only(without(two_shards(), Node, "b0")).code == "shard-without-nodes"


def test_a_shard_without_queues() -> None:
    assert only(without(two_shards(), Queue, "queue-of-b")).code == "shard-without-queues"


def test_nodes_that_belong_to_no_shard() -> None:
    found = only(labelled(installed(), Node, "n3", node_pool="typo"))
    assert (found.code, found.object, found.field) == (
        "node-without-shard",
        "Node n3",
        f"metadata.labels[{NODE_POOL_LABEL}]",
    )


def test_a_queue_that_belongs_to_no_shard() -> None:
    broken = labelled([*installed(), queue("other")], Queue, "other", node_pool="typo")
    assert (only(broken).code, only(broken).object) == ("queue-without-shard", "Queue other")


def test_a_job_in_another_shard_than_its_queue() -> None:
    found = only([*two_shards(), pod_group("astray", queue="queue-of-b"), *gang("astray", 1)])
    assert (found.code, found.object) == ("podgroup-in-other-shard", "PodGroup default/astray")


def test_pods_for_a_scheduler_that_nobody_runs() -> None:
    stray = [replace(pod(f"p{number}"), scheduler="kai-schedular").build() for number in range(2)]
    found = only([*installed(), *stray])
    assert (found.code, found.object, found.field) == ("scheduler-unknown", "Pod default/p0", "spec.schedulerName")
    assert "2 pods" in found.problem


def test_a_plugin_that_there_is_not() -> None:
    found = only(edited(installed(), SchedulingShard, "default", "spec.plugins", {"proportional": {}}))
    assert (found.code, found.field) == ("shard-plugin-unknown", "spec.plugins.proportional")


def test_a_shard_without_generators_of_scenarios() -> None:
    off = {name: {"enabled": False} for name in ("sg-nodelocalgreedy", "sg-multinodegang")}
    found = only(edited(installed(), SchedulingShard, "default", "spec.plugins", off))
    assert (found.code, found.field) == ("shard-never-evicts", "spec.plugins")
    assert "so consolidation, reclaim, preempt will never evict anybody" in found.problem


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("queueDepthPerAction", {"alocate": 5}, "queueDepthPerAction.alocate"),
        ("actions", {"reclam": {}}, "actions.reclam"),
        ("placementStrategy", {"gpu": "pack"}, "placementStrategy.gpu"),
        ("minRuntime", {"preemptMinRuntime": "soon"}, "minRuntime.preemptMinRuntime"),
        ("kValue", -1.0, "kValue"),
        ("usageDBConfig", {"clientType": "prometheus"}, "usageDBConfig.connectionString"),
    ],
)
def test_a_setting_of_a_shard_that_cannot_be_followed(field: str, value: Any, wrong: str) -> None:
    found = only(edited(installed(), SchedulingShard, "default", f"spec.{field}", value))
    assert (found.code, found.object, found.field) == (
        "shard-setting-wrong",
        "SchedulingShard default",
        f"spec.{wrong}",
    )


def test_a_setting_of_the_config_that_cannot_be_followed() -> None:
    found = only(edited(installed(), Config, "kai-config", "spec.binder", {"replicas": -1}))
    assert (found.code, found.field) == ("config-setting-wrong", "spec.binder.replicas")


def test_a_flag_that_the_scheduler_lacks() -> None:
    found = only(edited(installed(), SchedulingShard, "default", "spec.args", {"schedul-period": "2s"}))
    assert (found.code, found.field) == ("shard-argument-unknown", "spec.args.schedul-period")


# ── the usage database ──


def test_prometheus_without_an_address() -> None:
    broken = edited(installed(), SchedulingShard, "default", "spec.usageDBConfig", {"clientType": "prometheus"})
    assert only(broken).code == "shard-setting-wrong"
    fixed = edited(broken, Config, "kai-config", "spec.prometheus", {"enabled": True})
    assert findings(fixed) == []


def test_settings_of_the_usage_database_that_contradict_each_other() -> None:
    config = {
        "clientType": "prometheus",
        "connectionString": "http://prometheus",
        "usageParams": {"fetchInterval": "10m", "stalenessPeriod": "1m"},
    }
    found = only(edited(installed(), SchedulingShard, "default", "spec.usageDBConfig", config))
    assert (found.code, found.field) == ("usage-setting-wrong", "spec.usageDBConfig")


def test_a_prometheus_that_does_not_answer() -> None:
    condition = Condition(
        type="DependenciesFulfilled",
        status="False",
        lastTransitionTime=format_time(NOW),
        reason="prometheus_connection_failed",
        message="connection refused",
    )
    broken = edited(installed(), Config, "kai-config", "status.conditions", [msgspec.to_builtins(condition)])
    found = only(broken)
    assert found.code == "usage-unreachable"
    assert "connection refused" in found.problem


# ── quota and capacity ──


def test_quotas_above_what_the_nodes_have() -> None:
    found = only([*installed(), queue("huge", quota=100)])
    assert (found.code, found.object, found.field) == (
        "quota-over-capacity",
        "Queue huge",
        "spec.resources.gpu.quota",
    )
    assert "116 GPUs" in found.problem
    assert "32 GPUs" in found.problem
    assert found.command.endswith('{"spec":{"resources":{"gpu":{"quota":16}}}}\''), "what the others leave of 32"


def test_a_node_whose_gpus_are_gone() -> None:
    broken = [*installed(), node("n9", gpus=0, rack="r0", labels={"nvidia.com/gpu.count": "8"})]
    assert (only(broken).code, only(broken).object) == ("node-gpus-missing", "Node n9")


def test_gpus_of_two_vendors_in_one_pool() -> None:
    found = only([*installed(), node("amd", gpus=0, rack="r0", extended={"amd.com/gpu": "8"})])
    assert (found.code, found.severity) == ("gpu-kinds-mixed", Severity.INFO)


def test_a_config_may_name_other_labels() -> None:
    renamed = edited(installed(), Config, "kai-config", "spec.global", {"nodePoolLabelKey": "pool"})
    assert findings(labelled(renamed, Node, "n3", node_pool="typo")) == []
    assert only(labelled(renamed, Node, "n3", pool="typo")).code == "node-without-shard"
