"""How a pod fares, as far as PodCliques care; and which index, which victim, which gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from bosket.api.core import ContainerStatus, Pod
from bosket.api.grove.naming import GANG_GATE, POD_INDEX_LABEL, TEMPLATE_HASH_LABEL
from bosket.api.time import parse_time
from bosket.grove.render.template import index_label, is_terminating

_TERMINAL = frozenset({"Succeeded", "Failed"})
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_ready(pod: Pod) -> bool:
    """Whether a pod serves."""
    return _has_condition(pod, "Ready", "True")


def is_scheduled(pod: Pod) -> bool:
    """Whether a pod has a node."""
    return _has_condition(pod, "PodScheduled", "True")


def is_gated(pod: Pod) -> bool:
    """Whether the scheduler doesn't look at the pod yet."""
    return bool(pod.spec.schedulingGates) and not is_scheduled(pod)


def has_failed_container(pod: Pod) -> bool:
    """Whether a container has ended with an error before."""
    return any(map(_has_failed, (*pod.status.initContainerStatuses, *pod.status.containerStatuses)))


def has_unready_container(pod: Pod) -> bool:
    """Whether a container has started and isn't ready."""
    return any(each.started and not each.ready for each in pod.status.containerStatuses)


def template_hash_of(pod: Pod) -> str:
    """Which template a pod was made from."""
    return pod.metadata.labels.get(TEMPLATE_HASH_LABEL, "")


def has_gang_gate(pod: Pod) -> bool:
    """Whether a pod waits for its gang to know of it."""
    return any(each.name == GANG_GATE for each in pod.spec.schedulingGates)


def without_gang_gate(pod: Pod) -> Pod:
    """The pod without the operator's gate; those of others stay."""
    gates = tuple(each for each in pod.spec.schedulingGates if each.name != GANG_GATE)
    return replace(pod, spec=replace(pod.spec, schedulingGates=gates))


def free_indices(pods: Iterable[Pod], count: int) -> list[int]:
    """The lowest indices that no pod has; one that ends or has ended has none any more."""
    used = {
        index_label(each, POD_INDEX_LABEL)
        for each in pods
        if not is_terminating(each) and each.status.phase not in _TERMINAL
    }
    found: list[int] = []
    index = 0
    while len(found) < count:
        if index not in used:
            found.append(index)
        index += 1
    return found


def victims(pods: Sequence[Pod], count: int, current_hash: str) -> list[Pod]:
    """Which pods go when there are too many: the least useful, then those of an older template, then the youngest."""

    def order(pod: Pod) -> tuple[bool, int, bool, bool, float, str]:
        created = pod.metadata.creationTimestamp
        return (
            bool(pod.spec.nodeName),
            _PHASES.get(pod.status.phase, 0),
            is_ready(pod),
            template_hash_of(pod) == current_hash,
            -parse_time(created) if created else float("-inf"),
            pod.metadata.name,
        )

    return sorted(pods, key=order)[:count]


def to_release(pods: Iterable[Pod], referenced: Collection[str], *, base_scheduled: bool) -> tuple[list[Pod], bool]:
    """Pods whose gate is to be taken away, and whether others have to wait.

    A gate goes once the gang knows of the pod and, in a scaled gang, once the base gang has its minimum.
    """
    gated = [each for each in pods if has_gang_gate(each)]
    if not base_scheduled:
        return [], bool(gated)
    released = [each for each in gated if each.metadata.name in referenced]
    return released, len(released) < len(gated)


def _has_condition(pod: Pod, type_: str, status: str) -> bool:
    return any(each.type == type_ and each.status == status for each in pod.status.conditions)


def _has_failed(container: ContainerStatus) -> bool:
    ended = container.lastState.terminated
    return ended is not None and ended.exitCode != 0
