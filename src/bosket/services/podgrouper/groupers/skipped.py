"""Kinds that only wrap what they make: the owner below decides, with what the wrapper says and it doesn't."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from bosket.api import keys
from bosket.services.podgrouper.owner import POD, GroupVersionKind, Owner
from bosket.services.podgrouper.workload import Grouper, Grouping, Workload


def below_top(groupers: Mapping[GroupVersionKind, Grouper], otherwise: Grouper) -> Grouper:
    """The grouper of a wrapper: it hands over to the grouper of exactly the kind below, else to `otherwise`."""

    def grouper(workload: Workload) -> Grouping:
        owners = workload.owners[:-1]
        below = owners[-1] if owners else Owner.typed(POD, workload.pod)
        defaulted = _with_defaults(workload, below)
        top = _completed(defaulted, workload.top)
        # Where the chain counts, the owner below has the wrapper's defaults there, but not its labels.
        chain = (*owners[:-1], defaulted) if owners else ()
        narrowed = dataclasses.replace(workload, owners=chain, top=top)
        return groupers.get(below.gvk, otherwise)(narrowed)

    return grouper


def _with_defaults(workload: Workload, below: Owner) -> Owner:
    defaults = workload.cluster.kind_defaults().of(workload.top.gvk)
    labels = dict(below.labels)
    if defaults.priority_name and workload.cluster.priority_class_exists(defaults.priority_name):
        labels.setdefault(keys.PRIORITY_CLASS_LABEL, defaults.priority_name)
    if defaults.preemptibility:
        labels.setdefault(keys.PREEMPTIBILITY_LABEL, defaults.preemptibility)
    return _with(below, labels, below.annotations)


def _completed(below: Owner, wrapper: Owner) -> Owner:
    return _with(below, {**wrapper.labels, **below.labels}, {**wrapper.annotations, **below.annotations})


def _with(owner: Owner, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Owner:
    metadata = msgspec.structs.replace(owner.metadata, labels=dict(labels), annotations=dict(annotations))
    return dataclasses.replace(owner, metadata=metadata)
