"""Pods, owners and a cluster in a few words, for tests of grouping that need no API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bosket.api import keys
from bosket.api.core import Pod, PodSpec
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey, ObjectMeta, OwnerReference, Status
from bosket.kube.errors import ApiError, NotFound
from bosket.runtime.clock import SystemClock
from bosket.services.podgrouper.grouping import group, top_of
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.kind_default import KindDefaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupVersionKind, Owner
from bosket.services.podgrouper.program import Answers, Programs
from bosket.services.podgrouper.table import GrouperTable
from bosket.services.podgrouper.workload import Grouping, NotAnsweredYet, NotReadYet, Wanted

NAMESPACE = "team-a"


def owner(
    kind: str,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owned_by: Owner | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Owner:
    """`kind` as in the table of groupers: `batch/v1/Job`."""
    api_version, _, bare = kind.rpartition("/")
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owned_by is not None:
        reference = owned_by.reference
        metadata["ownerReferences"] = [{key: getattr(reference, key) for key in ("apiVersion", "kind", "name", "uid")}]
    return Owner.untyped(GroupVersionKind.of(api_version, bare), {"metadata": metadata, "spec": dict(spec or {})})


def pod(
    name: str,
    owned_by: Owner | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority_class: str = "",
    scheduler: str = keys.SCHEDULER_NAME,
    deleting: bool = False,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            ownerReferences=(owned_by.reference,) if owned_by is not None else (),
            deletionTimestamp="2025-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PodSpec(schedulerName=scheduler, priorityClassName=priority_class),
    )


@dataclass
class SketchedCluster:
    """A `Cluster` and an `OwnerReader` made of what a test puts in."""

    owners: tuple[Owner, ...] = ()
    priority_classes: frozenset[str] = frozenset(keys.PRIORITY_CLASSES)
    pod_groups: dict[ObjectKey, PodGroup] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    defaults: KindDefaults = field(default_factory=KindDefaults)
    pods: tuple[Pod, ...] = ()
    #: raised instead of an answer, by kind
    refusals: Mapping[str, ApiError] = field(default_factory=dict)

    def priority_class_exists(self, name: str) -> bool:
        return name in self.priority_classes

    def pod_group(self, key: ObjectKey) -> PodGroup | None:
        return self.pod_groups.get(key)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self.labels

    def kind_defaults(self) -> KindDefaults:
        return self.defaults

    def pods_labelled(self, namespace: str, label: str, value: str) -> list[Pod]:
        return [each for each in self.pods if each.metadata.labels.get(label) == value]

    def pod_groups_named_after(self, namespace: str, uid: str) -> list[PodGroup]:
        return [each for key, each in self.pod_groups.items() if key.namespace == namespace and uid in key.name]

    async def read(self, reference: OwnerReference, namespace: str) -> Owner:
        if reference.kind in self.refusals:
            raise self.refusals[reference.kind]
        for each in self.owners:
            if (each.gvk.kind, each.name) == (reference.kind, reference.name):
                return each
        raise NotFound(Status(code=404, reason="NotFound", message=f"{reference.kind} {reference.name} not found"))

    async def find(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner:
        raise NotImplementedError("an owner chain follows references only")

    async def find_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        raise NotImplementedError("an owner chain follows references only")


def grouping_of(
    a_pod: Pod, *owners: Owner, cluster: SketchedCluster | None = None, options: Options | None = None
) -> Grouping:
    """The grouping of a pod below `owners`, the direct one first."""
    cluster = cluster or SketchedCluster()
    others: dict[Wanted, tuple[Owner, ...]] = {}
    answers: dict[Programs, Answers] = {}
    while True:
        try:
            found = group(a_pod, owners, cluster, options or Options(), GrouperTable(), others=others, answers=answers)
        except NotReadYet as missing:
            gvk, name = missing.wanted
            others[missing.wanted] = tuple(
                each for each in cluster.owners if each.gvk == gvk and name in ("", each.name)
            )
        except NotAnsweredYet as missing:
            answers[missing.programs] = asyncio.run(_answers(missing.programs, top_of(a_pod, owners), a_pod))
        else:
            assert found is not None
            return found


async def _answers(programs: Programs, top: Owner, a_pod: Pod) -> Answers:
    with contextlib.closing(JqEvaluator(SystemClock())) as evaluator:
        return await evaluator.answers(programs, top, a_pod)


def group_of(
    a_pod: Pod, *owners: Owner, cluster: SketchedCluster | None = None, options: Options | None = None
) -> PodGroup:
    return grouping_of(a_pod, *owners, cluster=cluster, options=options).pod_group
