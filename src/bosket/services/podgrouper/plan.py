"""Plan: what to do about one pod: read its owners, group it, compare with what exists. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.kube.errors import ApiError
from bosket.services.podgrouper.grouping import group, is_ours, merge, pod_changes, top_of
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, Owner, OwnerReader, owner_chain
from bosket.services.podgrouper.program import Answers, ProgramRunner, Programs
from bosket.services.podgrouper.table import GrouperTable
from bosket.services.podgrouper.workload import Cluster, Grouping, NotAnsweredYet, NotReadYet, Wanted

#: The maximum number of further objects for one pod; more means an endless loop in a grouper.
_MOST_OTHERS: Final = 16
#: Each costs a run of its programs.
_MOST_KARTAS: Final = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """A pod's group as it should be, as it is (None: it doesn't exist), and the patch of the pod's metadata."""

    pod_group: PodGroup
    existing: PodGroup | None
    pod_changes: dict[str, Any]


async def find_grouping(
    pod: Pod, reader: OwnerReader, cluster: Cluster, options: Options, table: GrouperTable, *, runner: ProgramRunner
) -> Grouping | None:
    """The pod's grouping; None if the pod isn't grouped.

    Raises `GroupingError`, or what `reader` raises, except for a terminating pod: its owners may be gone before it.
    """
    if not is_ours(pod, cluster, options):
        return None
    try:
        owners = await owner_chain(pod, reader)
    except (GroupingError, ApiError):
        if pod.metadata.deletionTimestamp is not None:
            return None
        raise
    others: dict[Wanted, tuple[Owner, ...]] = {}
    answers: dict[Programs, Answers] = {}
    while True:
        try:
            return group(pod, owners, cluster, options, table, others=others, answers=answers)
        except NotReadYet as missing:
            if len(others) == _MOST_OTHERS:
                raise GroupingError(f"pod {pod.key} can't be grouped: that takes too many objects, {missing}") from None
            others[missing.wanted] = await _read(missing.wanted, reader, pod.metadata.namespace)
        except NotAnsweredYet as missing:
            if len(answers) == _MOST_KARTAS:
                raise GroupingError(
                    f"pod {pod.key} can't be grouped: more than {_MOST_KARTAS} Kartas are for it"
                ) from None
            answers[missing.programs] = await runner.answers(missing.programs, top_of(pod, owners), pod)


async def _read(wanted: Wanted, reader: OwnerReader, namespace: str) -> tuple[Owner, ...]:
    gvk, name = wanted
    return (await reader.find(gvk, name, namespace),) if name else await reader.find_all(gvk)


def compare(pod: Pod, grouping: Grouping, existing: PodGroup | None, options: Options) -> Plan:
    """The plan that makes what exists equal to `grouping`."""
    computed = grouping.pod_group
    return Plan(
        pod_group=merge(existing, computed, options) if existing is not None else computed,
        existing=existing,
        pod_changes=pod_changes(pod, grouping),
    )
