"""What people call a job: the name of the workload that owns its pod group, which they have given themselves.

A pod group's own name, `pg-<workload>-<uid>`, is shown only where the workload's isn't unique in the namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey


def workload_of(group: PodGroup) -> tuple[str, str]:
    """Kind and name of the workload that owns the group; the group's own where it has no owner."""
    for owner in group.metadata.ownerReferences[:1]:
        return owner.kind, owner.name
    return "PodGroup", group.metadata.name


def shown_names(groups: Iterable[PodGroup]) -> Mapping[ObjectKey, str]:
    """By pod group: the name of its workload where no other group of the namespace has the same, else its own."""
    listed = list(groups)
    taken = Counter((group.metadata.namespace, workload_of(group)[1]) for group in listed)
    return {
        group.key: name
        if taken[group.metadata.namespace, (name := workload_of(group)[1])] == 1
        else group.metadata.name
        for group in listed
    }
