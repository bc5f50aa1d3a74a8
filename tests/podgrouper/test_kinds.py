"""What kinds do otherwise than the default."""

from __future__ import annotations

import re

import pytest

from bosket.api import keys
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, Owner
from tests.podgrouper.sketch import NAMESPACE, SketchedCluster, group_of, owner, pod


def job(minimum: str | None = None) -> Owner:
    return owner(
        "batch/v1/Job", "train", annotations={} if minimum is None else {keys.BATCH_MIN_MEMBER_ANNOTATION: minimum}
    )


@pytest.mark.parametrize(("minimum", "expected"), [(None, 1), ("4", 4), ("+4", 4), ("0", 0)])
def test_a_jobs_annotation_sets_its_minimum(minimum: str | None, expected: int) -> None:
    assert group_of(pod("train-x", job(minimum)), job(minimum)).spec.minMember == expected


@pytest.mark.parametrize("minimum", ["", "abc", " 3", "3.0", "1_0", "-2", "99999999999", "9" * 5000, "٣"])
def test_a_minimum_that_is_no_count_is_refused_by_name(minimum: str) -> None:
    sentence = re.escape(f'Job team-a/train: annotation kai.scheduler/batch-min-member is "{minimum}"')
    with pytest.raises(GroupingError, match=sentence):
        group_of(pod("train-x", job(minimum)), job(minimum))


def test_a_pod_of_a_job_stays_in_its_legacy_group_alone() -> None:
    legacy = ObjectKey(NAMESPACE, "pg-train-x-uid-train")
    cluster = SketchedCluster(pod_groups={legacy: PodGroup()})
    found = group_of(pod("train-x", job("4")), job("4"), cluster=cluster)
    assert (found.metadata.name, found.spec.minMember) == (legacy.name, 1)
    ignored = group_of(pod("train-x", job("4")), job("4"), cluster=cluster, options=Options(search_legacy_groups=False))
    assert (ignored.metadata.name, ignored.spec.minMember) == ("pg-train-uid-train", 4)


def test_a_group_that_only_looks_legacy_is_the_jobs_own() -> None:
    """A pod named like its Job has one and the same name under both schemes."""
    cluster = SketchedCluster(pod_groups={ObjectKey(NAMESPACE, "pg-train-uid-train"): PodGroup()})
    assert group_of(pod("train", job("4")), job("4"), cluster=cluster).spec.minMember == 4


def test_each_run_of_a_cron_job_is_a_group_and_the_cron_job_says_nothing() -> None:
    top = owner("batch/v1/CronJob", "nightly", labels={keys.QUEUE_LABEL: "cron"})
    run = owner(
        "batch/v1/Job",
        "nightly-1",
        owned_by=top,
        labels={keys.QUEUE_LABEL: "job"},
        annotations={keys.BATCH_MIN_MEMBER_ANNOTATION: "3"},
    )
    found = group_of(pod("nightly-1-a", run), run, top)
    assert found.metadata.name == "pg-nightly-1-uid-nightly-1"
    assert found.metadata.ownerReferences[0].kind == "Job"
    assert (found.spec.queue, found.spec.minMember) == ("job", 1)


def test_a_pod_directly_below_a_cron_job_is_refused() -> None:
    top = owner("batch/v1/CronJob", "nightly")
    with pytest.raises(GroupingError, match="CronJob team-a/nightly, but to none of its Jobs"):
        group_of(pod("a", top), top)


def test_each_pod_of_a_deployment_is_a_group_of_its_own_for_inference() -> None:
    top = owner("apps/v1/Deployment", "web", labels={keys.QUEUE_LABEL: "q"})
    middle = owner("apps/v1/ReplicaSet", "web-1", owned_by=top, labels={"priorityClassName": "build"})
    found = group_of(pod("web-1-a", middle), middle, top)
    assert found.metadata.name == "pg-web-1-a-uid-web-1-a"
    assert (found.metadata.ownerReferences[0].kind, found.metadata.ownerReferences[0].name) == ("Pod", "web-1-a")
    assert (found.spec.queue, found.spec.priorityClassName) == ("q", "inference")
    assert "kind: Deployment\n" in found.metadata.annotations[keys.TOP_OWNER_ANNOTATION]


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_the_pods_of_a_set_are_one_group(kind: str) -> None:
    top = owner(f"apps/v1/{kind}", "db")
    names = {group_of(pod(name, top), top).metadata.name for name in ("db-0", "db-1")}
    assert names == {"pg-db-uid-db"}


def test_a_bare_pod_is_a_group_of_its_own() -> None:
    found = group_of(pod("solo", labels={keys.QUEUE_LABEL: "q"}))
    assert (found.metadata.name, found.spec.queue) == ("pg-solo-uid-solo", "q")
    assert found.metadata.annotations[keys.TOP_OWNER_ANNOTATION].endswith('group: ""\nversion: v1\nkind: Pod\n')


def test_the_pods_of_a_spark_application_share_the_group_that_its_selector_names() -> None:
    labels = {"spark-app-name": "pi", "spark-app-selector": "spark-abc"}
    assert group_of(pod("driver", labels=labels)).metadata.name == "spark-abc"
    driver = owner("v1/Pod", "driver", labels=labels)
    assert group_of(pod("exec-1", driver, labels=labels), driver).metadata.name == "spark-abc"
    with pytest.raises(GroupingError, match="spark-app-selector is empty"):
        group_of(pod("driver", labels={"spark-app-name": "pi", "spark-app-selector": ""}))
