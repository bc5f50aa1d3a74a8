"""What is said about queues when they are written and when they go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.kai import (
    PodGroup,
    PodGroupResourcesStatus,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueResource,
    QueueResources,
    QueueSpec,
    QueueStatus,
)
from bosket.api.object import ObjectMeta
from bosket.runtime.webhook.verdict import Verdict
from bosket.services.admission.queue import check, check_deletion, says_it_is_used

FREE = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)


def queue(name: str, parent: str = "", *, status: QueueStatus | None = None, **gpu: Any) -> Queue:
    resource = QueueResource(**{"quota": 0.0, "overQuotaWeight": 1.0, "limit": -1.0, **gpu})
    spec = QueueSpec(parentQueue=parent, resources=QueueResources(gpu=resource, cpu=FREE, memory=FREE))
    return Queue(metadata=ObjectMeta(name=name), spec=spec, status=status or QueueStatus())


def judged(new: Queue, *others: Queue, old: Queue | None = None, sums: bool = False) -> Verdict:
    return check(new, old, {each.metadata.name: each for each in others}, sums=sums)


def test_a_queue_that_is_right_is_admitted_without_a_word() -> None:
    assert judged(queue("a", "top", quota=4, limit=8), queue("top")) == Verdict()


def test_a_queue_without_limits_is_admitted_without_a_word() -> None:
    spec = QueueSpec(resources=QueueResources(gpu=QueueResource(quota=10)))
    assert judged(Queue(metadata=ObjectMeta(name="a"), spec=spec)) == Verdict()


def test_resources_must_be_given() -> None:
    bare = Queue(metadata=ObjectMeta(name="a"))
    (refusal,) = judged(bare).refusals
    assert refusal.field == "spec.resources"
    assert "give it quota, limit and overQuotaWeight" in refusal.message


@pytest.mark.parametrize(("field", "value"), [("quota", -5), ("limit", -0.5), ("overQuotaWeight", -1)])
def test_negative_amounts_are_refused(field: str, value: float) -> None:
    negative: dict[str, Any] = {field: value}
    (refusal,) = judged(queue("a", **negative)).refusals
    assert refusal.field == f"spec.resources.gpu.{field}"
    assert "must be 0 or more" in refusal.message


@pytest.mark.parametrize(
    ("new", "others", "way"),
    [
        (queue("a", "a"), [], "a → a"),
        (queue("a", "b"), [queue("b", "a")], "a → b → a"),
        (queue("a", "c"), [queue("a"), queue("b", "a"), queue("c", "b")], "a → c → b → a"),
    ],
)
def test_circles_are_refused(new: Queue, others: list[Queue], way: str) -> None:
    (refusal,) = judged(new, *others).refusals
    assert refusal.field == "spec.parentQueue"
    assert f"({way})" in refusal.message


def test_a_circle_of_others_is_not_this_queues_fault() -> None:
    assert judged(queue("a", "b"), queue("b", "c"), queue("c", "b")).refusals == ()


def test_a_queue_in_a_circle_can_be_changed_otherwise_and_be_taken_out_of_it() -> None:
    old, other = queue("a", "b"), queue("b", "a")
    assert judged(queue("a", "b", quota=3), old, other, old=old).refusals == ()
    assert judged(queue("a"), old, other, old=old).refusals == ()


def test_a_parent_that_is_not_there_yet_is_a_warning() -> None:
    """Manifests are applied in any order."""
    verdict = judged(queue("a", "top"))
    assert verdict.refusals == ()
    assert verdict.warnings == (
        'spec.parentQueue: there is no queue "top" (yet); until there is, nothing runs in this queue',
    )


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ({"limit": 0}, "limit is 0: nothing that asks for gpu will run"),
        ({"quota": 8, "limit": 4}, "limit is 4, below the quota (8)"),
        ({"quota": -1, "limit": 4}, "below the quota (unlimited)"),
    ],
)
def test_limits_that_are_odd_are_a_warning(gpu: dict[str, Any], words: str) -> None:
    verdict = judged(queue("a", **gpu))
    assert verdict.refusals == ()
    (warning,) = verdict.warnings
    assert words in warning


def test_quotas_are_added_up_only_if_asked_for() -> None:
    top, b = queue("top", quota=4), queue("b", "top", quota=3)
    assert judged(queue("a", "top", quota=3), top, b).warnings == ()
    (warning,) = judged(queue("a", "top", quota=3), top, b, sums=True).warnings
    assert warning == 'the quotas of gpu below queue "top" are 6 together, more than its own 4'
    (warning,) = judged(queue("top", quota=2), top, b, old=top, sums=True).warnings
    assert warning == 'the quotas of gpu below queue "top" are 3 together, more than its own 2'
    assert judged(queue("a", "top", quota=1), top, b, sums=True).warnings == ()
    (warning,) = judged(queue("a", "top", quota=-1), top, sums=True).warnings
    assert "are unlimited together" in warning


def test_a_queue_that_is_going_is_not_judged() -> None:
    going = queue("a", "a")
    going = replace(going, metadata=ObjectMeta(name="a", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert judged(going) == Verdict()


def group(name: str, queue_name: str, *, namespace: str = "ml", held: str = "1", going: bool = False) -> PodGroup:
    metadata = ObjectMeta(name=name, namespace=namespace, deletionTimestamp="2026-01-01T00:00:00Z" if going else None)
    status = PodGroupStatus(resourcesStatus=PodGroupResourcesStatus(allocated={"cpu": held}))
    return PodGroup(metadata=metadata, spec=PodGroupSpec(queue=queue_name), status=status)


def test_a_queue_with_queues_below_it_may_go_and_what_becomes_of_them_is_told() -> None:
    """`kubectl delete queues --all` and pruning go in any order."""
    verdict = check_deletion(queue("top"), {"a": queue("a", "top"), "b": queue("b", "a")}, [group("g", "other")])
    assert verdict.refusals == ()
    (warning,) = verdict.warnings
    assert warning.startswith('queues below "top" ("a") can\'t be used without it')


def test_a_queue_with_running_jobs_stays() -> None:
    (refusal,) = check_deletion(queue("a"), {}, [group("g", "a", held="500m")]).refusals
    assert refusal.message == "cannot delete queue a: jobs of it are running (ml/g): end them, or move them, first"


def test_a_queue_with_running_jobs_anywhere_below_it_stays() -> None:
    tree = {"top": queue("top"), "mid": queue("mid", "top"), "leaf": queue("leaf", "mid")}
    (refusal,) = check_deletion(queue("top"), tree, [group("g", "leaf")]).refusals
    assert refusal.message.startswith("cannot delete queue top: it has child queues [mid], and jobs of it are running")


def test_a_circle_of_queues_can_be_taken_apart() -> None:
    circle = {"a": queue("a", "b"), "b": queue("b", "a")}
    assert check_deletion(circle["a"], circle, [group("g", "other")]).refusals == ()


@pytest.mark.parametrize(
    "harmless",
    [
        group("g", "a", held="0"),
        group("g", "a", going=True),
        group("g", "a", namespace="kai-scheduler"),
        group("g", "a", namespace="kai-resource-reservation"),
        group("g", "a", namespace="kai-scale-adjust"),
    ],
)
def test_jobs_that_have_ended_and_pods_of_bosket_itself_keep_no_queue(harmless: PodGroup) -> None:
    assert check_deletion(queue("a"), {}, [harmless]) == Verdict()


def test_pod_groups_are_asked_for_only_where_a_queue_says_that_it_is_used() -> None:
    used = queue("a", status=QueueStatus(allocated={"nvidia.com/gpu": "500m", "cpu": "0"}))
    assert says_it_is_used(used)
    assert not says_it_is_used(queue("a", status=QueueStatus(allocated={"cpu": "0", "memory": "odd"})))


def test_jobs_that_wait_are_a_warning() -> None:
    verdict = check_deletion(queue("a", status=QueueStatus(requested={"cpu": "1"})), {"a": queue("a")}, ())
    assert (verdict.refusals, len(verdict.warnings)) == ((), 1)


def test_a_queue_that_nobody_needs_may_go() -> None:
    unused = queue("a", status=QueueStatus(allocated={"cpu": "0"}, requested={"memory": "odd"}))
    assert check_deletion(unused, {"a": queue("a"), "b": queue("b")}, ()) == Verdict()
