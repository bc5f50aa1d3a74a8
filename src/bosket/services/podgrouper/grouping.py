"""From a pod and its owners to its group: pure; called by the service, the tests and the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import POD, Owner
from bosket.services.podgrouper.program import Answers, Programs
from bosket.services.podgrouper.table import GrouperTable
from bosket.services.podgrouper.workload import Cluster, Grouping, Wanted, Workload


def is_ours(pod: Pod, cluster: Cluster, options: Options) -> bool:
    """Whether the pod is to be grouped, as far as it shows without its owners."""
    if pod.spec.schedulerName != options.scheduler_name or _opted_out(pod.metadata.annotations):
        return False
    names_group = keys.POD_GROUP_ANNOTATION in pod.metadata.annotations
    # A bare pod that names a group: the user created the group. But a running pod that was released by its Job outlives
    # the Job, whose group goes with it.
    if names_group and not pod.metadata.ownerReferences and not _lost_its_group(pod, cluster):
        return False
    return _has(pod.metadata.labels, options.pod_label_selector) and (
        not options.namespace_label_selector
        or _has(cluster.namespace_labels(pod.metadata.namespace), options.namespace_label_selector)
    )


def group(
    pod: Pod,
    owners: tuple[Owner, ...],
    cluster: Cluster,
    options: Options,
    table: GrouperTable,
    *,
    others: Mapping[Wanted, tuple[Owner, ...]] = MappingProxyType({}),
    answers: Mapping[Programs, Answers] = MappingProxyType({}),
) -> Grouping | None:
    """The grouping of a pod by its owners (the direct one first).

    None when an owner opts out, and for a bound pod that is charged in another group: it stays there. Raises
    `GroupingError` when the pod can't be grouped, `NotReadYet` or `NotAnsweredYet` when more objects or answers are
    needed than `others` and `answers`.
    """
    if any(_opted_out(owner.annotations) for owner in owners):
        return None
    top = top_of(pod, owners)
    grouping = table.find(top.gvk, options)(Workload(pod, owners, top, cluster, options, others, answers))
    return _as_charged(_with_node_pool(grouping, pod, options.node_pool_label_key), pod, cluster)


def top_of(pod: Pod, owners: tuple[Owner, ...]) -> Owner:
    """The object that decides about grouping: the last owner, or the pod itself."""
    return owners[-1] if owners else Owner.typed(POD, pod)


def pod_changes(pod: Pod, grouping: Grouping) -> dict[str, Any]:
    """The metadata that the pod lacks; empty if it has everything.

    A wrong sub-group label is replaced but never removed: the grouper can't know whether it wrote the label.
    """
    changes: dict[str, Any] = {}
    name = grouping.pod_group.metadata.name
    if pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION) != name:
        changes["annotations"] = {keys.POD_GROUP_ANNOTATION: name}
    if grouping.subgroup and pod.metadata.labels.get(keys.SUBGROUP_LABEL) != grouping.subgroup:
        changes["labels"] = {keys.SUBGROUP_LABEL: grouping.subgroup}
    return changes


def merge(existing: PodGroup, computed: PodGroup, options: Options) -> PodGroup:
    """`existing` as it should be. What users or the scheduler decided stays: queue, node pool, back-off, labels.

    So changing a queue label on a running workload has no effect; edit the group's `spec.queue` to move it.
    """
    replace = msgspec.structs.replace
    kept, new = existing.spec, computed.spec
    labels = existing.metadata.labels | computed.metadata.labels
    for key in (options.queue_label_key, options.node_pool_label_key):
        if key in existing.metadata.labels:
            labels[key] = existing.metadata.labels[key]
    if options.node_pool_label_key not in existing.metadata.labels:
        labels.pop(options.node_pool_label_key, None)
    topology = new.topologyConstraint
    return replace(
        existing,
        metadata=replace(
            existing.metadata,
            labels=labels,
            annotations=existing.metadata.annotations | computed.metadata.annotations,
            ownerReferences=computed.metadata.ownerReferences,
        ),
        spec=replace(
            new,
            queue=kept.queue,
            markUnschedulable=kept.markUnschedulable,
            schedulingBackoff=kept.schedulingBackoff,
            topologyConstraint=topology if topology and topology.topology else kept.topologyConstraint,
        ),
    )


def _as_charged(grouping: Grouping, pod: Pod, cluster: Cluster) -> Grouping | None:
    """The grouping in which a bound pod is charged: it keeps its group, whatever its owners are now.

    A user may write another owner into a running pod. KAI regroups such a pod: it is then charged to that owner's
    queue, and its old gang counts one pod less. A deleted group is created again under its old name, because the binder
    restores that name on the pod.
    """
    charged = _charged_group(pod)
    if charged is None or charged == grouping.pod_group.key:
        return grouping
    if not _lost_its_group(pod, cluster):
        return None
    replace = msgspec.structs.replace
    group = grouping.pod_group
    return Grouping(replace(group, metadata=replace(group.metadata, name=charged.name)), grouping.subgroup)


def _charged_group(pod: Pod) -> ObjectKey | None:
    """The group in which a bound pod is charged; None of a pod that isn't bound, or has no group yet."""
    name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
    return ObjectKey(pod.metadata.namespace, name) if pod.spec.nodeName and name else None


def _lost_its_group(pod: Pod, cluster: Cluster) -> bool:
    """Whether a pod uses a node while the group in which it is charged isn't there."""
    charged = _charged_group(pod)
    uses_node = pod.metadata.deletionTimestamp is None and not has_ended(pod)
    return charged is not None and uses_node and cluster.pod_group(charged) is None


def _with_node_pool(grouping: Grouping, pod: Pod, key: str) -> Grouping:
    node_pool = pod.metadata.labels.get(key)
    metadata = grouping.pod_group.metadata
    if node_pool is None or key in metadata.labels:
        return grouping
    replace = msgspec.structs.replace
    labelled = replace(grouping.pod_group, metadata=replace(metadata, labels=metadata.labels | {key: node_pool}))
    return Grouping(labelled, grouping.subgroup)


def _opted_out(annotations: Mapping[str, str]) -> bool:
    return annotations.get(keys.SKIP_PODGROUPER_ANNOTATION) == "true"


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
