"""apps/v1: Deployments. StatefulSets and ReplicaSets follow the default."""

from __future__ import annotations

from bosket.services.podgrouper.groupers.default import INFERENCE, base_group
from bosket.services.podgrouper.owner import POD, Owner
from bosket.services.podgrouper.workload import Grouping, Workload


def deployment(workload: Workload) -> Grouping:
    """Replicas of a service don't wait for each other: each pod is a group of its own, and counts as inference."""
    pod = Owner.typed(POD, workload.pod)
    return Grouping(base_group(workload, owner=pod, fallback_priority=INFERENCE))
