"""Volcano (1.14 or newer): a PodGang becomes one PodGroup of it, with a sub-group policy for each pod group.

Topology goes by tiers of HyperNodes. A level is the tier that is named like its domain or its label; where tiers have
no names, tiers are counted from the narrowest level of the gang's ClusterTopologyBinding. What can't be found is
refused if it is required, and left out if it is preferred.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import ClusterTopologyBinding, GangPodGroup, GangTopologyConstraint, PodCliqueSet, PodGang
from bosket.api.object import KubeObject, LabelSelector
from bosket.api.volcano import HyperNode, NetworkTopology, PodGroup, PodGroupSpec, SubGroupPolicy
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
from bosket.grove.backends.composition import preferred_level, required_level

QUEUE_ANNOTATION: Final = "scheduling.grove.io/volcano-queue"
_DEFAULT_QUEUE: Final = "default"
_GROUP_ANNOTATIONS: Final = ("scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name")
_UNAVAILABLE: Final = "VolcanoCapabilityUnavailable"


class VolcanoBackend(SchedulerBackend):
    """PodGroups of scheduling.volcano.sh/v1beta1."""

    name = "volcano"
    scheduler_name = "volcano"
    kinds = (PodGroup,)
    reads = (HyperNode, ClusterTopologyBinding)

    def matches(self, scheduler_name: str) -> bool:
        return self.name in scheduler_name

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        if not cluster.serves(PodGroup):
            raise Refused("the API server doesn't serve scheduling.volcano.sh/v1beta1 PodGroups", _UNAVAILABLE)
        tiers = _Tiers(gang, cluster)
        parts = gang.spec.podgroups
        for config in gang.spec.topologyConstraintGroupConfigs:
            tiers.unable(config.name, config.topologyConstraint)
        spec = PodGroupSpec(
            # Something must be waited for: a gang without minimums is one pod.
            minMember=sum(each.minReplicas for each in parts) or 1,
            queue=_queue(gang, cluster.owner),
            priorityClassName=gang.spec.priorityClassName,
            networkTopology=tiers.topology("the gang", gang.spec.topologyConstraint),
            subGroupPolicy=tuple(_policy(part, tiers) for part in parts),
        )
        metadata = owned_metadata(gang, gang.metadata.name)
        return Rendering((PodGroup(metadata=metadata, spec=spec),), tuple(tiers.left_out))

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject:
        """A gang whose minimums are all taken away, in the middle of an update, keeps those that it had."""
        assert isinstance(found, PodGroup)
        assert isinstance(wanted, PodGroup)
        spec = wanted.spec
        if found.spec.subGroupPolicy and not any(each.minSubGroups for each in spec.subGroupPolicy):
            spec = msgspec.structs.replace(
                spec, minMember=found.spec.minMember, subGroupPolicy=found.spec.subGroupPolicy
            )
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted), spec=spec)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        del cluster
        return with_metadata(pod, annotations=dict.fromkeys(_GROUP_ANNOTATIONS, gang.metadata.name))

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        group = next((each for each in cluster.owned_of(PodGroup) if each.key == gang.key), None)
        if group is not None and gang.spec.podgroups and not group.spec.subGroupPolicy:
            dropped = "the API server drops subGroupPolicy of PodGroups: Volcano must be 1.14 or newer"
            raise Refused(dropped, _UNAVAILABLE)
        conditions = [] if group is None else [each for each in group.status.conditions if each.status == "True"]
        # The last one counts: the scheduler adds conditions as it goes.
        if not conditions or conditions[-1].type != "Unschedulable":
            return Verdict()
        return Verdict(reason=conditions[-1].reason or "Unschedulable", message=conditions[-1].message)


def _queue(gang: PodGang, owner: PodCliqueSet | None) -> str:
    """What the set says, whose annotations the gang has, else its cliques. Grove forgets what only these say."""
    of_cliques = (each.annotations for each in owner.spec.template.cliques) if owner is not None else ()
    named = (each.get(QUEUE_ANNOTATION, "").strip() for each in (gang.metadata.annotations, *of_cliques))
    return next((each for each in named if each), _DEFAULT_QUEUE)


def _policy(part: GangPodGroup, tiers: _Tiers) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=part.name,
        labelSelector=LabelSelector(matchLabels={keys.GROVE_POD_CLIQUE_LABEL: part.name}),
        matchLabelKeys=(keys.GROVE_POD_CLIQUE_LABEL,),
        subGroupSize=max(part.minReplicas, 1),
        minSubGroups=1 if part.minReplicas else 0,
        networkTopology=tiers.topology(part.name, part.topologyConstraint),
    )


class _Tiers:
    """Levels of the gang's topology as tiers of HyperNodes."""

    def __init__(self, gang: PodGang, cluster: Surroundings) -> None:
        self._gang = gang
        topology = gang.metadata.annotations.get(keys.GROVE_TOPOLOGY_ANNOTATION, "")
        binding = next(
            (each for each in cluster.related_of(ClusterTopologyBinding) if each.metadata.name == topology), None
        )
        self._levels = binding.spec.levels if binding is not None else ()
        self._nodes = cluster.related_of(HyperNode)
        self.left_out: list[str] = []

    def topology(self, whose: str, constraint: GangTopologyConstraint | None) -> NetworkTopology | None:
        """The constraint in Volcano's words; raises `Refused` where it must hold and has none."""
        required, preferred = required_level(constraint), preferred_level(constraint)
        if required:
            found = self._tier(required)
            if found is None:
                raise Refused(f"{whose} must be in one domain of {required}, and no tier of HyperNodes stands for that")
            if preferred:
                self.left_out.append(f"{whose} prefers one domain of {preferred}; Volcano has one level only")
            return msgspec.structs.replace(found, mode="hard")
        found = self._tier(preferred) if preferred else None
        if preferred and found is None:
            self.left_out.append(
                f"{whose} prefers one domain of {preferred}, and no tier of HyperNodes stands for that"
            )
        return msgspec.structs.replace(found, mode="soft") if found is not None else None

    def unable(self, whose: str, constraint: GangTopologyConstraint | None) -> None:
        """Volcano keeps a gang or a pod group together, not several pod groups; raises `Refused` if they must be."""
        if required := required_level(constraint):
            raise Refused(f"{whose} must be in one domain of {required}; Volcano can't keep some pod groups together")
        if preferred := preferred_level(constraint):
            self.left_out.append(
                f"{whose} prefers one domain of {preferred}; Volcano can't keep some pod groups together"
            )

    def _tier(self, level: str) -> NetworkTopology | None:
        domain = next((each.domain for each in self._levels if each.key == level), "")
        named = {each.spec.tierName for each in self._nodes if each.spec.tierName}
        for name in (domain, level):
            if name in named:
                return NetworkTopology(highestTierName=name)
        keys_of_levels = [each.key for each in reversed(self._levels)]
        if named or not self._nodes or level not in keys_of_levels:
            return None
        return NetworkTopology(highestTierAllowed=keys_of_levels.index(level) + 1)
