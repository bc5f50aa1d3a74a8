"""What queues use, with all below them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from bosket.api.condition import find_condition
from bosket.api.kai import (
    PodGroup,
    PodGroupResourcesStatus,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueCondition,
    QueueFairShare,
    QueueResource,
    QueueResources,
    QueueSpec,
    QueueStatus,
)
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.quantity import Quantity
from bosket.api.time import format_time
from bosket.services.queue.account import Accounts
from bosket.services.queue.metrics import QueueMetrics

NOW = 1_800_000_000.0


def queue(name: str, parent: str = "", **status: Any) -> Queue:
    shares = QueueResources(gpu=QueueResource(quota=8), cpu=QueueResource(quota=2000), memory=QueueResource(quota=-1))
    spec = QueueSpec(parentQueue=parent, resources=shares)
    return Queue(metadata=ObjectMeta(name=name, labels={"tier": "gold"}), spec=spec, status=QueueStatus(**status))


def group(queue_name: str, gpus: int) -> PodGroup:
    amounts: dict[str, Quantity] = {"nvidia.com/gpu": str(gpus), "memory": f"{gpus}Gi"} if gpus else {}
    resources = PodGroupResourcesStatus(allocated=amounts, requested=amounts)
    return PodGroup(spec=PodGroupSpec(queue=queue_name), status=PodGroupStatus(resourcesStatus=resources))


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def tree(*pairs: tuple[str, str]) -> Accounts:
    accounts = Accounts()
    for name, parent in pairs:
        accounts.put_queue(name, queue(name, parent))
    return accounts


def test_every_queue_above_a_group_counts_it_at_once() -> None:
    accounts = tree(("top", ""), ("mid", "top"), ("leaf", "mid"), ("other", "top"))
    assert accounts.put_group(key("g"), group("leaf", 3)) == {"leaf", "mid", "top"}
    for name in ("leaf", "mid", "top"):
        assert accounts.status(name, NOW).allocated == {"memory": "3Gi", "nvidia.com/gpu": "3"}
    assert accounts.status("other", NOW).allocated == {}
    assert accounts.status("top", NOW).childQueues == ("mid", "other")


def fares(queue_name: str, phase: str, pending: int = 0) -> PodGroup:
    return PodGroup(spec=PodGroupSpec(queue=queue_name), status=PodGroupStatus(phase=phase, pending=pending))


def test_jobs_that_wait_and_jobs_that_run_are_counted_at_every_level() -> None:
    accounts = tree(("top", ""), ("a", "top"), ("b", "top"))
    accounts.put_group(key("waits"), fares("a", "Pending", 2))
    accounts.put_group(key("evicted"), fares("a", "Evicted", 2))
    accounts.put_group(key("gone"), fares("a", "Evicted"))  # no pod of it wants anything
    accounts.put_group(key("runs"), fares("b", "Running"))
    accounts.put_group(key("starts"), fares("b", "Scheduled"))
    accounts.put_group(key("done"), fares("b", "Succeeded"))

    def counts(name: str) -> tuple[int | None, int | None]:
        return accounts.status(name, NOW).waitingJobs, accounts.status(name, NOW).runningJobs

    assert [counts(name) for name in ("a", "b", "top")] == [(2, 0), (0, 2), (2, 2)]
    accounts.put_group(key("waits"), fares("b", "Running", 1))
    accounts.put_queue("b", queue("b"))  # a root of its own from now on
    assert [counts(name) for name in ("a", "b", "top")] == [(1, 0), (0, 3), (1, 0)]


def test_gpus_of_all_vendors_are_one_number() -> None:
    amounts: dict[str, Quantity] = {"nvidia.com/gpu": "1500m", "amd.com/gpu": "2", "cpu": "3"}
    status = PodGroupStatus(resourcesStatus=PodGroupResourcesStatus(allocated=amounts))
    accounts = tree(("q", ""))
    accounts.put_group(key("g"), PodGroup(spec=PodGroupSpec(queue="q"), status=status))
    assert accounts.status("q", NOW).gpus == 3.5


def test_the_fair_share_is_left_as_the_scheduler_wrote_it() -> None:
    accounts = Accounts()
    accounts.put_queue("q", queue("q", fairShare=QueueFairShare(gpu=4)))
    assert accounts.status("q", NOW).fairShare == QueueFairShare(gpu=4)


def test_a_group_that_moves_or_goes_is_taken_off() -> None:
    accounts = tree(("top", ""), ("a", "top"), ("b", "top"))
    accounts.put_group(key("g"), group("a", 3))
    assert accounts.put_group(key("g"), group("b", 2)) == {"a", "b", "top"}
    assert accounts.status("a", NOW).allocated == {}
    assert accounts.status("top", NOW).requested == {"memory": "2Gi", "nvidia.com/gpu": "2"}
    accounts.put_group(key("g"), None)
    assert accounts.status("top", NOW).requested == {}


def test_groups_may_come_before_their_queues() -> None:
    accounts = Accounts()
    accounts.put_group(key("g"), group("leaf", 1))
    accounts.put_queue("leaf", queue("leaf", "top"))
    accounts.put_queue("top", queue("top"))
    assert accounts.status("top", NOW).allocated == {"memory": "1Gi", "nvidia.com/gpu": "1"}


def test_a_circle_of_queues_is_counted_once() -> None:
    accounts = tree(("a", "b"), ("b", "a"))
    accounts.put_group(key("g"), group("a", 1))
    assert (
        accounts.status("a", NOW).allocated
        == accounts.status("b", NOW).allocated
        == {"memory": "1Gi", "nvidia.com/gpu": "1"}
    )
    accounts.put_queue("a", queue("a"))
    accounts.put_group(key("g"), None)
    assert accounts.status("a", NOW).allocated == accounts.status("b", NOW).allocated == {}


def orphan(accounts: Accounts, name: str) -> QueueCondition | None:
    return find_condition(accounts.status(name, NOW).conditions, "Orphan")


def test_a_queue_whose_parent_is_gone_says_so_and_so_do_all_below_it() -> None:
    accounts = tree(("top", ""), ("mid", "top"), ("leaf", "mid"), ("other", ""))
    assert [orphan(accounts, each) for each in ("top", "mid", "leaf", "other")] == [None] * 4
    assert accounts.put_queue("top", None) == {"mid", "leaf", "other"}
    mid, leaf = orphan(accounts, "mid"), orphan(accounts, "leaf")
    assert mid is not None
    assert leaf is not None
    assert (mid.status, mid.reason) == (leaf.status, leaf.reason) == ("True", "ParentNotFound")
    assert mid.message.startswith('its parent queue "top" does not exist')
    assert leaf.message.startswith('its queue "top" above it does not exist')
    assert orphan(accounts, "other") is None


def test_an_orphan_that_is_given_a_parent_says_since_when_it_is_none() -> None:
    accounts = tree(("a", "gone"))
    accounts.put_queue("a", replace(queue("a", "gone"), status=accounts.status("a", NOW)))
    assert accounts.status("a", NOW + 60) == accounts.status("a", NOW)  # nothing to write
    accounts.put_queue("gone", queue("gone"))
    found = find_condition(accounts.status("a", NOW + 60).conditions, "Orphan")
    assert found is not None
    assert (found.status, found.reason, found.lastTransitionTime) == ("False", "ParentFound", format_time(NOW + 60))


def test_a_circle_is_named() -> None:
    accounts = tree(("a", "b"), ("b", "a"))
    found = orphan(accounts, "a")
    assert found is not None
    assert (found.reason, "(a → b → a)" in found.message) == ("ParentsInCircle", True)


NAMES = ["a", "b", "c", "d"]
STEPS = st.one_of(
    st.tuples(st.just("group"), st.sampled_from("123456"), st.sampled_from(NAMES), st.integers(-1, 4)),
    st.tuples(st.just("queue"), st.sampled_from(NAMES), st.sampled_from(["", *NAMES]), st.booleans()),
)


@given(st.lists(STEPS, max_size=40))
def test_sums_are_those_of_the_groups_that_there_are_whatever_happened_before(steps: list[Any]) -> None:
    accounts = Accounts()
    groups: dict[str, PodGroup | None] = {}
    queues: dict[str, Queue | None] = {}
    for kind, name, where, amount in steps:
        if kind == "group":
            groups[name] = None if amount < 0 else group(where, amount)
            accounts.put_group(key(name), groups[name])
        else:
            queues[name] = queue(name, where) if amount else None
            accounts.put_queue(name, queues[name])
    fresh = Accounts()
    for name, each in queues.items():
        fresh.put_queue(name, each)
    for name, put in groups.items():
        fresh.put_group(key(name), put)
    for name, each in queues.items():
        if each is not None:
            assert accounts.status(name, NOW) == fresh.status(name, NOW)


def test_metrics_show_shares_and_use_by_kais_names_and_go_with_the_queue() -> None:
    registry = CollectorRegistry()
    metrics = QueueMetrics(registry, "kai", {"tier": "queue_tier", "none": "queue_none"}, {"none": "-"})
    metrics.show(queue("q", allocated={"nvidia.com/gpu": "1500m", "cpu": "250m", "memory": "1Gi"}))
    labels = {
        "queue_name": "q",
        "queue_metadata_name": "q",
        "queue_display_name": "",
        "queue_tier": "gold",
        "queue_none": "-",
    }

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("kai_queue_info") == 1
    assert value("kai_queue_deserved_gpus") == 8
    assert value("kai_queue_quota_cpu_cores") == 2
    assert value("kai_queue_quota_memory_bytes") == -1
    assert value("kai_queue_allocated_gpus") == 1.5
    assert value("kai_queue_allocated_cpu_cores") == 0.25
    assert value("kai_queue_allocated_memory_bytes") == 2**30
    metrics.forget("q")
    assert value("kai_queue_info") is None
