"""The gang API of Kubernetes' own scheduler, one adapter for each version of scheduling.k8s.io.

    v1alpha1    a Workload lists its groups; pods name workload and group
    v1alpha2    the scheduler reads PodGroups, a Workload holds their templates; pods name their PodGroup
    v1beta1     the same; v1alpha3 beside it has CompositePodGroups, by which all groups of a gang go together

`find_api` picks the newest that a cluster serves.
"""

from __future__ import annotations

from typing import Final

from bosket.grove.backends.backend import identity
from bosket.grove.backends.gang_api.adapter import GangApi
from bosket.grove.backends.gang_api.composite import CompositeGroupsApi
from bosket.grove.backends.gang_api.groups import GroupsApi
from bosket.grove.backends.gang_api.v1alpha1 import WorkloadApi
from bosket.grove.backends.gang_api.v1alpha2 import FirstGroupsApi

#: The newest first.
APIS: Final[tuple[GangApi, ...]] = (
    CompositeGroupsApi("v1beta1"),
    GroupsApi("v1beta1"),
    CompositeGroupsApi("v1alpha3"),
    GroupsApi("v1alpha3"),
    FirstGroupsApi(),
    WorkloadApi(),
)


def find_api(served: frozenset[tuple[str, str]]) -> GangApi | None:
    """The adapter for the newest version that is served whole; None where there is none."""
    return next((api for api in APIS if all(identity(kind) in served for kind in api.kinds)), None)


__all__ = ["APIS", "GangApi", "find_api"]
