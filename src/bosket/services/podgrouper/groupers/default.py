"""The group that a workload gets when its kind has no rule of its own, and the base of all other groupers.

`base_group` is made for being called by them: it derives everything from the top owner and the pod, and the caller says
what its kind does otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast

from bosket.api import keys
from bosket.api.gang import usual_group_name
from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from bosket.api.object import ObjectMeta
from bosket.api.time import format_duration, parse_duration
from bosket.services.podgrouper.owner import POD, GroupingError, Owner, top_owner_text
from bosket.services.podgrouper.workload import Grouping, Workload

TRAIN: Final = "train"
BUILD: Final = "build"
INFERENCE: Final = "inference"

Preemptibility = Literal["", "preemptible", "non-preemptible"]
PREEMPTIBILITIES: Final = ("", "preemptible", "non-preemptible")


def default(workload: Workload) -> Grouping:
    """One group per top owner; every owner in the chain may set priority, preemptibility and delays."""
    return Grouping(base_group(workload, chain=workload.owners or (workload.top,)))


def base_group(
    workload: Workload,
    *,
    chain: Sequence[Owner] = (),
    name: str = "",
    owner: Owner | None = None,
    min_member: int = 1,
    min_subgroup: int | None = None,
    subgroups: Sequence[SubGroup] = (),
    fallback_priority: str = TRAIN,
) -> PodGroup:
    """The group of a workload's top owner.

    `chain` are the owners that may set priority, preemptibility and delays, and `owner` is who the group belongs to and
    is named after; both are the top owner alone by default. Where `min_subgroup` is given it is the minimum,
    in place of `min_member`.
    """
    top = workload.top
    chain = chain or (top,)
    owner = owner or top
    return PodGroup(
        metadata=ObjectMeta(
            name=name or group_name(owner),
            namespace=workload.pod.metadata.namespace,
            labels=_labels(workload),
            annotations=_annotations(workload),
            ownerReferences=(owner.reference,),
        ),
        spec=PodGroupSpec(
            minMember=min_member if min_subgroup is None else None,
            minSubGroup=min_subgroup,
            subGroups=tuple(subgroups),
            queue=_queue(workload),
            priorityClassName=_priority_class(workload, chain, fallback_priority),
            preemptibility=_preemptibility(workload, chain),
            topologyConstraint=topology_of(top.annotations),
            preemptionDelay=_duration(workload, chain, keys.PREEMPTION_DELAY_ANNOTATION, may_be_negative=False),
            stalenessGracePeriod=_duration(
                workload, chain, keys.STALENESS_GRACE_PERIOD_ANNOTATION, may_be_negative=True
            ),
        ),
    )


def group_name(owner: Owner) -> str:
    """The name of an owner's group."""
    return usual_group_name(owner.name, owner.metadata.uid)


def _labels(workload: Workload) -> dict[str, str]:
    labels = dict(workload.top.labels)
    user = workload.pod.metadata.labels.get(keys.USER_LABEL)
    if user is not None:
        labels.setdefault(keys.USER_LABEL, user)
    return labels


def _annotations(workload: Workload) -> dict[str, str]:
    annotations = dict(workload.top.annotations)
    for key in (keys.USER_ANNOTATION, keys.RUN_TIME_LIMIT_ANNOTATION):
        value = workload.pod.metadata.annotations.get(key)
        if value is not None:
            annotations.setdefault(key, value)
    annotations.setdefault(keys.TOP_OWNER_ANNOTATION, top_owner_text(workload.top))
    return annotations


def _queue(workload: Workload) -> str:
    """An empty label is an answer too: it names no queue, and the scheduler will say so."""
    top, pod, options = workload.top.labels, workload.pod.metadata.labels, workload.options
    for labels in (top, pod):
        if options.queue_label_key in labels:
            return labels[options.queue_label_key]
    project = top.get(keys.PROJECT_LABEL, pod.get(keys.PROJECT_LABEL))
    if project is None:
        return keys.DEFAULT_QUEUE
    node_pool = pod.get(options.node_pool_label_key)
    return f"{project}-{node_pool}" if node_pool else project


def _priority_class(workload: Workload, chain: Sequence[Owner], fallback: str) -> str:
    """The first candidate that exists. A label, even an empty one, hides what stands behind it, as in KAI."""
    cluster = workload.cluster
    for candidate in _priority_candidates(workload, chain):
        if cluster.priority_class_exists(candidate):
            return candidate
    defaults = cluster.kind_defaults()
    by_kind = (defaults.of(owner.gvk).priority_name for owner in chain)
    return next((name for name in by_kind if cluster.priority_class_exists(name)), fallback)


def _priority_candidates(workload: Workload, chain: Sequence[Owner]) -> Iterator[str]:
    # Owner by owner, each backed by the pod: so the pod comes before an owner that is further up. See facts 17.x.2.
    of_pod = workload.pod.metadata.labels.get(keys.PRIORITY_CLASS_LABEL, workload.pod.spec.priorityClassName)
    for owner in chain:
        yield owner.labels.get(keys.PRIORITY_CLASS_LABEL, of_pod)


def _preemptibility(workload: Workload, chain: Sequence[Owner]) -> Preemptibility:
    for labels in (*(owner.labels for owner in chain), workload.pod.metadata.labels):
        value = labels.get(keys.PREEMPTIBILITY_LABEL)
        if value in PREEMPTIBILITIES:
            return cast(Preemptibility, value)
    defaults = workload.cluster.kind_defaults()
    by_kind = (defaults.of(owner.gvk).preemptibility.lower() for owner in chain)
    return cast(Preemptibility, next((value for value in by_kind if value and value in PREEMPTIBILITIES), ""))


def _duration(workload: Workload, chain: Sequence[Owner], key: str, *, may_be_negative: bool) -> str | None:
    for source in (*(owner.annotations for owner in chain), workload.pod.metadata.annotations):
        if key not in source:
            continue
        try:
            seconds = parse_duration(source[key])
        except ValueError:
            continue
        if seconds >= 0 or may_be_negative:
            return format_duration(seconds)
    return None


def close_together(topology: str, required: str, preferred: str) -> TopologyConstraint | None:
    """How close the pods of a part must be; nothing without a topology, or without a level of it."""
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(topology=topology, requiredTopologyLevel=required, preferredTopologyLevel=preferred)


def topology_of(annotations: Mapping[str, str]) -> TopologyConstraint | None:
    """What annotations say about closeness."""
    constraint = TopologyConstraint(
        topology=annotations.get(keys.TOPOLOGY_ANNOTATION, ""),
        requiredTopologyLevel=annotations.get(keys.TOPOLOGY_REQUIRED_ANNOTATION, ""),
        preferredTopologyLevel=annotations.get(keys.TOPOLOGY_PREFERRED_ANNOTATION, ""),
    )
    return constraint if constraint != TopologyConstraint() else None


def deployment(workload: Workload) -> Grouping:
    """Replicas of a service don't wait for each other: each pod is a group of its own, and counts as inference."""
    pod = Owner.typed(POD, workload.pod)
    return Grouping(base_group(workload, owner=pod, fallback_priority=INFERENCE))


def pod(workload: Workload) -> Grouping:
    """One group per pod at the top; the pods of a Spark application form one group, named by its selector."""
    labels = workload.top.labels
    if keys.SPARK_APP_NAME_LABEL not in labels or keys.SPARK_APP_SELECTOR_LABEL not in labels:
        return Grouping(base_group(workload))
    application = labels[keys.SPARK_APP_SELECTOR_LABEL]
    if not application:
        raise GroupingError(
            f"{workload.top}: label {keys.SPARK_APP_SELECTOR_LABEL} is empty; "
            "the group of a Spark application is named by it"
        )
    return Grouping(base_group(workload, name=application))
