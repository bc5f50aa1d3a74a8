"""A Job's pods get the label of their group as they arrive."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.services.admission import mutate
from bosket.services.podgrouper.groupers.default import group_name
from bosket.services.podgrouper.owner import GroupVersionKind, Owner
from tests.admission.pods import SHARING, pod

JOB = OwnerReference(apiVersion="batch/v1", kind="Job", name="train", uid="u-1", controller=True)


def group_of(annotations: dict[str, str] | None = None, **meta: Any) -> str | None:
    made = mutate(pod(annotations, meta={"ownerReferences": (JOB,), **meta}), SHARING)
    return made.metadata.annotations.get(POD_GROUP_ANNOTATION)


def test_it_is_the_group_that_the_pod_grouper_makes() -> None:
    owner = Owner(GroupVersionKind("batch", "v1", "Job"), ObjectMeta(name="train", uid="u-1"), {})
    assert group_of() == group_name(owner) == "pg-train-u-1"


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": ()},
        {"ownerReferences": (OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web", uid="u-2"),)},
        {"ownerReferences": (JOB, OwnerReference(apiVersion="v1", kind="ConfigMap", name="x", uid="u-3"))},
        {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": "workers"}},
    ],
    ids=["nobody's", "of another kind", "of two owners", "a part of a JobSet"],
)
def test_of_others_only_the_pod_grouper_knows(meta: dict[str, Any]) -> None:
    assert group_of(**meta) is None


def test_a_group_that_was_chosen_stays() -> None:
    assert group_of({POD_GROUP_ANNOTATION: "mine"}) == "mine"
    assert group_of({"kai.scheduler/skip-podgrouper": "true"}) is None


def test_pods_of_other_schedulers_are_left_alone() -> None:
    other = pod(scheduler="default-scheduler", meta={"ownerReferences": (JOB,)})
    assert mutate(other, SHARING) is other
