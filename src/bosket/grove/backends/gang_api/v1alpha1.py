"""scheduling.k8s.io/v1alpha1: one Workload per gang, with a group for each of its pod groups. It has no status."""

from __future__ import annotations

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.core.pod import PodWorkloadReference
from bosket.api.grove import PodGang
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s.v1alpha1 import PodGroup, Workload, WorkloadSpec
from bosket.grove.backends.backend import Refused, Rendering, Surroundings, merged_metadata, owned_metadata, with_spec
from bosket.grove.backends.composition import label_name
from bosket.grove.backends.gang_api.adapter import (
    MOST_TEMPLATES,
    GangApi,
    controller_reference_of,
    left_out_preferences,
    loosened_bonds,
    narrowest_level,
    policy,
)


class WorkloadApi(GangApi):
    """Kubernetes 1.35."""

    kinds = (Workload,)

    def render(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        for group in gang.spec.podgroups:
            if level := narrowest_level(gang, group):
                raise Refused(
                    f"{group.name} must be in one domain of {level}; Kubernetes 1.35 knows no topology of gangs"
                )
        spec = WorkloadSpec(controllerRef=controller_reference_of(cluster.owner), podGroups=_groups(gang))
        workload = Workload(metadata=owned_metadata(gang, gang.metadata.name), spec=spec)
        left_out = [] if _is_folded(gang) else loosened_bonds(gang)
        if _is_folded(gang):
            left_out.append(f"its {len(gang.spec.podgroups)} pod groups count as one: a Workload has {MOST_TEMPLATES}")
        return Rendering((workload,), (*left_out, *left_out_preferences(gang)))

    def link(self, gang: PodGang, pod: Pod) -> Pod:
        group = gang.metadata.name if _is_folded(gang) else pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL]
        reference = PodWorkloadReference(name=gang.metadata.name, podGroup=label_name(group))
        return with_spec(pod, workloadRef=reference)

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        assert isinstance(found, Workload)
        assert isinstance(wanted, Workload)
        if found.spec.podGroups != wanted.spec.podGroups:
            return None
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted))


def _groups(gang: PodGang) -> tuple[PodGroup, ...]:
    parts = gang.spec.podgroups
    if _is_folded(gang):
        return (PodGroup(name=label_name(gang.metadata.name), policy=policy(sum(each.minReplicas for each in parts))),)
    return tuple(PodGroup(name=label_name(each.name), policy=policy(each.minReplicas)) for each in parts)


def _is_folded(gang: PodGang) -> bool:
    """Whether all pods count as one group: together they still start as a gang."""
    return len(gang.spec.podgroups) > MOST_TEMPLATES
