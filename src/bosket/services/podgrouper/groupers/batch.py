"""batch/v1: Jobs and CronJobs."""

from __future__ import annotations

import dataclasses

from bosket.api import keys
from bosket.api.object import ObjectKey
from bosket.services.podgrouper.field import LARGEST_COUNT, whole_number
from bosket.services.podgrouper.groupers.default import base_group, group_name
from bosket.services.podgrouper.owner import GroupingError, Owner
from bosket.services.podgrouper.workload import Grouping, Workload


def job(workload: Workload) -> Grouping:
    """One group per Job, with the minimum of its annotation; a pod whose legacy group exists keeps that one, alone."""
    min_member = batch_min_member(workload.top)
    legacy_name = f"pg-{workload.pod.metadata.name}-{workload.top.metadata.uid}"
    if legacy_name != group_name(workload.top) and _legacy_group_exists(workload, legacy_name):
        return Grouping(base_group(workload, name=legacy_name))
    return Grouping(base_group(workload, min_member=1 if min_member is None else min_member))


def cron_job(workload: Workload) -> Grouping:
    """One group per run: the Job that the CronJob made decides, the CronJob itself says nothing."""
    below = workload.owners[-2] if len(workload.owners) > 1 else None
    if below is None or (below.gvk.group, below.gvk.kind) != ("batch", "Job"):
        raise GroupingError(
            f"pod {workload.pod.key} belongs to {workload.top}, but to none of its Jobs; "
            f"between a CronJob and its pods a Job is expected"
        )
    return Grouping(base_group(dataclasses.replace(workload, top=below)))


def batch_min_member(owner: Owner) -> int | None:
    """The minimum that an owner's annotation asks for, if it does."""
    text = owner.annotations.get(keys.BATCH_MIN_MEMBER_ANNOTATION)
    if text is None:
        return None
    value = whole_number(text)
    if value is None or value < 0:
        raise GroupingError(
            f'{owner}: annotation {keys.BATCH_MIN_MEMBER_ANNOTATION} is "{text}"; '
            f"it must be a whole number from 0 to {LARGEST_COUNT}"
        )
    return value


def _legacy_group_exists(workload: Workload, name: str) -> bool:
    key = ObjectKey(workload.pod.metadata.namespace, name)
    return workload.options.search_legacy_groups and workload.cluster.pod_group(key) is not None
