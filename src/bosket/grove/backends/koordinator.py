"""Koordinator: a PodGang becomes a PodGroup for each pod group, bound together as a gang group.

PodGroups are of the API group that the cluster serves: scheduling.sigs.k8s.io, as Koordinator installs it, else
scheduling.koordinator.sh.

Topology goes by the layers of the cluster's ClusterNetworkTopology, and for the gang as a whole: a constraint of some
of its pod groups is refused if it is required, and left out if it is preferred, unless it is the gang's only one.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import GangTopologyConstraint, PodGang
from bosket.api.koordinator import ClusterNetworkTopology, OwnPodGroup, PodGroup, PodGroupSpec
from bosket.api.object import KubeObject
from bosket.grove.backends.backend import (
    Refused,
    Rendering,
    SchedulerBackend,
    Surroundings,
    Verdict,
    merged_metadata,
    owned_metadata,
    with_metadata,
)
from bosket.grove.backends.composition import label_name, preferred_level, required_level

_PREFIX: Final = "gang.scheduling.koordinator.sh"
_TOPOLOGY_ANNOTATION: Final = f"{_PREFIX}/network-topology-spec"
_POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
_PLACED: Final = frozenset({"Scheduled", "Running", "Finished"})


class KoordinatorBackend(SchedulerBackend):
    """PodGroups with Koordinator's annotations."""

    name = "koordinator"
    scheduler_name = "koord-scheduler"
    kinds = (PodGroup, OwnPodGroup)
    reads = (ClusterNetworkTopology,)
    gate = "scheduling.koordinator.sh/gang"

    def kinds_in(self, served: frozenset[tuple[str, str]]) -> tuple[type[KubeObject], ...]:
        return super().kinds_in(served)[:1]

    def matches(self, scheduler_name: str) -> bool:
        return "koord" in scheduler_name

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        kind = next((each for each in (PodGroup, OwnPodGroup) if cluster.serves(each)), None)
        if kind is None:
            raise Refused(
                "the API server serves PodGroups neither of scheduling.sigs.k8s.io/v1alpha1 nor of "
                "scheduling.koordinator.sh/v1alpha1"
            )
        strategy, left_out = _gather_strategy(gang, cluster)
        parts = gang.spec.podgroups
        bundle = json.dumps([f"{gang.metadata.namespace}/{label_name(part.name)}" for part in parts])
        shared = {f"{_PREFIX}/mode": "Strict", f"{_PREFIX}/groups": bundle, f"{_PREFIX}/match-policy": "once-satisfied"}
        if strategy:
            shared[_TOPOLOGY_ANNOTATION] = json.dumps({"gatherStrategy": strategy})
        return Rendering(
            tuple(
                kind(
                    metadata=owned_metadata(
                        gang,
                        label_name(part.name),
                        annotations={
                            **shared,
                            f"{_PREFIX}/total-number": str(max(len(part.podReferences), part.minReplicas)),
                        },
                    ),
                    spec=PodGroupSpec(minMember=part.minReplicas),
                )
                for part in parts
            ),
            tuple(left_out),
        )

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject:
        assert isinstance(found, PodGroup)
        assert isinstance(wanted, PodGroup)
        spec = msgspec.structs.replace(found.spec, minMember=wanted.spec.minMember)
        metadata = merged_metadata(found, wanted)
        if _TOPOLOGY_ANNOTATION not in wanted.metadata.annotations:
            kept = {key: value for key, value in metadata.annotations.items() if key != _TOPOLOGY_ANNOTATION}
            metadata = msgspec.structs.replace(metadata, annotations=kept)
        return msgspec.structs.replace(found, metadata=metadata, spec=spec)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        del gang, cluster
        return with_metadata(
            pod, labels={_POD_GROUP_LABEL: label_name(pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL])}
        )

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        del gang
        waiting = [each for each in cluster.owned_of(PodGroup) if each.status.phase not in _PLACED]
        if not waiting:
            return Verdict()
        phases = ", ".join(f"{each.metadata.name} {each.status.phase or 'Pending'}" for each in waiting)
        return Verdict(message=f"Koordinator says of its pod groups: {phases}")


def _gather_strategy(gang: PodGang, cluster: Surroundings) -> tuple[list[dict[str, str]], list[str]]:
    """What must and should be gathered where, and what can't be said; raises `Refused`."""
    whole, left_out = gang.spec.topologyConstraint, []
    if len(gang.spec.podgroups) == 1:
        whole = gang.spec.podgroups[0].topologyConstraint or whole  # the part is the whole
    else:
        for config in gang.spec.topologyConstraintGroupConfigs:
            left_out += _left_out(config.name, config.topologyConstraint)
        for part in gang.spec.podgroups:
            left_out += _left_out(part.name, part.topologyConstraint)
    layers = {
        key: layer.topologyLayer
        for topology in cluster.related_of(ClusterNetworkTopology)
        for layer in topology.spec.networkTopologySpec
        for key in layer.labelKey
    }
    strategy = []
    required, preferred = required_level(whole), preferred_level(whole)
    if required:
        if required not in layers:
            raise Refused(
                f"the gang must be in one domain of {required}, and no layer of a ClusterNetworkTopology has that label"
            )
        strategy.append({"layer": layers[required], "strategy": "MustGather"})
    if preferred in layers:
        strategy.append({"layer": layers[preferred], "strategy": "PreferGather"})
    elif preferred:
        left_out.append(
            f"the gang prefers one domain of {preferred}, and no layer of a ClusterNetworkTopology has that label"
        )
    return strategy, left_out


def _left_out(name: str, constraint: GangTopologyConstraint | None) -> list[str]:
    if required := required_level(constraint):
        raise Refused(f"{name} must be in one domain of {required}; Koordinator gathers gangs as a whole only")
    preferred = preferred_level(constraint)
    return [f"{name} prefers one domain of {preferred}; Koordinator gathers gangs as a whole only"] if preferred else []
