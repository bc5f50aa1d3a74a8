"""KAI and Bosket itself: a PodGang becomes one scheduling.run.ai PodGroup with a sub-group for each of its pod groups.

Named `pg-<gang>-<uid>`, as KAI's own pod grouper names it; one that the gang owns under another name (Grove names it
like the gang) is kept, and pods name that one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import GangTopologyConstraint, PodCliqueSet, PodGang
from bosket.api.kai import PodGroup, PodGroupSpec, SchedulingCondition, SubGroup, TopologyConstraint
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

#: What KAI's components set on a PodGroup once it exists.
_RUNTIME_LABELS: Final = (keys.NODE_POOL_LABEL, keys.QUEUE_LABEL)
MAPPING_FAILED: Final = "KAIBackendMappingFailed"


class KaiBackend(SchedulerBackend):
    """PodGroups of scheduling.run.ai/v2alpha2."""

    name = "kai"
    scheduler_name = keys.SCHEDULER_NAME
    kinds = (PodGroup,)
    gate = "grove.io/podgang"

    def matches(self, scheduler_name: str) -> bool:
        del scheduler_name
        return True  # the fallback: other backends are asked first

    def sync(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        if not cluster.serves(PodGroup):
            raise Refused("the API server doesn't serve scheduling.run.ai/v2alpha2 PodGroups", MAPPING_FAILED)
        topology = gang.metadata.annotations.get(keys.GROVE_TOPOLOGY_ANNOTATION) or gang.metadata.annotations.get(
            keys.TOPOLOGY_ANNOTATION, ""
        )
        metadata = owned_metadata(
            gang,
            group_name(gang, cluster),
            annotations={**gang.metadata.annotations, keys.SKIP_PODGROUPER_ANNOTATION: "true"},
        )
        spec = PodGroupSpec(
            minMember=sum(each.minReplicas for each in gang.spec.podgroups),
            queue=_queue(gang, cluster.owner),
            priorityClassName=gang.spec.priorityClassName,
            topologyConstraint=_constraint(gang, gang.spec.topologyConstraint, topology),
            subGroups=_subgroups(gang, topology),
        )
        return Rendering((PodGroup(metadata=metadata, spec=spec),))

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject:
        assert isinstance(found, PodGroup)
        assert isinstance(wanted, PodGroup)
        spec = msgspec.structs.replace(
            wanted.spec,
            markUnschedulable=found.spec.markUnschedulable,
            schedulingBackoff=found.spec.schedulingBackoff,
            queue=found.spec.queue or wanted.spec.queue,
        )
        if spec.topologyConstraint is None and found.spec.topologyConstraint == TopologyConstraint():
            spec = msgspec.structs.replace(spec, topologyConstraint=found.spec.topologyConstraint)
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted, _RUNTIME_LABELS), spec=spec)

    def pod_additions(self, gang: PodGang, pod: Pod, cluster: Surroundings) -> Pod:
        return with_metadata(
            pod,
            labels={keys.SUBGROUP_LABEL: pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL]},
            annotations={
                keys.SKIP_PODGROUPER_ANNOTATION: "true",
                keys.POD_GROUP_ANNOTATION: group_name(gang, cluster),
            },
        )

    def verdict(self, gang: PodGang, cluster: Surroundings) -> Verdict:
        name = group_name(gang, cluster)
        group = next((each for each in cluster.owned_of(PodGroup) if each.metadata.name == name), None)
        if group is None:
            return Verdict()
        refused = next((each for each in group.status.schedulingConditions if each.status == "True"), None)
        stale_since = group.metadata.annotations.get(keys.STALE_SINCE_ANNOTATION, "")
        unhealthy = f"PodGroup {name} is below its minimum since {stale_since}" if stale_since else ""
        if refused is None:
            return Verdict(unhealthy=unhealthy)
        explained = refused.reasons[0] if refused.reasons else None
        return Verdict(
            reason=(explained.reason if explained else "") or refused.reason,
            message=_message(refused),
            unhealthy=unhealthy,
        )


def _message(refused: SchedulingCondition) -> str:
    """The sentence that Bosket's scheduler begins its message with, and the reasons; KAI's message is the reasons."""
    sentence, _, texts = refused.message.partition("\n")
    reasons = [each.message for each in refused.reasons]
    if texts and reasons and all(each in texts for each in reasons):
        reasons = [sentence, *reasons]
    return "; ".join(reasons) or refused.message


def group_name(gang: PodGang, cluster: Surroundings) -> str:
    """The name of the gang's PodGroup: that of the one which there is, else `pg-<gang>-<uid>`."""
    usual = f"pg-{gang.metadata.name}-{gang.metadata.uid}"
    found = {each.metadata.name for each in cluster.owned_of(PodGroup) if not each.metadata.deletionTimestamp}
    if len(found) <= 1:
        return next(iter(found), usual)
    named = Counter(pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION, "") for pod in cluster.pods)
    # Of several, the one that most pods name; the usual one where they don't decide it.
    return max(sorted(found), key=lambda name: (named[name], name == usual))


def queue_of_set(owner: PodCliqueSet) -> str | None:
    """The queue that a set or its cliques name, labels before annotations; None where nobody names one.

    Raises `Refused` where they don't agree.
    """
    own = _named_queue(owner.metadata.labels, owner.metadata.annotations)
    by_clique = {
        clique.name: queue
        for clique in owner.spec.template.cliques
        if (queue := _named_queue(clique.labels, clique.annotations))
    }
    if own:
        for clique, queue in by_clique.items():
            if queue != own:
                raise Refused(
                    f'KAI queue on PodCliqueSet {owner.key} is "{own}" but PodClique template "{clique}" resolves to '
                    f'"{queue}"',
                    MAPPING_FAILED,
                )
        return own
    queues = sorted(set(by_clique.values()))
    if len(queues) > 1:
        raise Refused(
            f"conflicting KAI queues on PodCliqueSet {owner.key} PodClique templates: [{' '.join(queues)}]",
            MAPPING_FAILED,
        )
    return queues[0] if queues else None


def _named_queue(labels: dict[str, str], annotations: dict[str, str]) -> str:
    return labels.get(keys.QUEUE_LABEL) or annotations.get(keys.QUEUE_LABEL, "")


def _queue(gang: PodGang, owner: PodCliqueSet | None) -> str:
    named = queue_of_set(owner) if owner is not None else None
    return named or _named_queue(gang.metadata.labels, gang.metadata.annotations) or keys.DEFAULT_QUEUE


def _subgroups(gang: PodGang, topology: str) -> tuple[SubGroup, ...]:
    """Parents, where several pod groups are kept together, then those that hold pods."""
    parents = [config for config in gang.spec.topologyConstraintGroupConfigs if config.podGroupNames]
    parent_of = {name: config.name for config in parents for name in config.podGroupNames}
    return (
        *(
            SubGroup(
                name=config.name,
                minSubGroup=len(config.podGroupNames),
                topologyConstraint=_constraint(gang, config.topologyConstraint, topology),
            )
            for config in parents
        ),
        *(
            SubGroup(
                name=group.name,
                minMember=group.minReplicas,
                parent=parent_of.get(group.name),
                topologyConstraint=_constraint(gang, group.topologyConstraint, topology),
            )
            for group in gang.spec.podgroups
        ),
    )


def _constraint(gang: PodGang, given: GangTopologyConstraint | None, topology: str) -> TopologyConstraint | None:
    if given is None or given.packConstraint is None:
        return None
    if not topology:
        raise Refused(
            f"PodGang {gang.key} has topology constraints, but no annotation {keys.GROVE_TOPOLOGY_ANNOTATION} says in "
            "which topology",
            MAPPING_FAILED,
        )
    return TopologyConstraint(
        topology=topology,
        requiredTopologyLevel=given.packConstraint.required or "",
        preferredTopologyLevel=given.packConstraint.preferred or "",
    )
