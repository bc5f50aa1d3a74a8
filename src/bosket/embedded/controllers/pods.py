"""Pod predicates of the workload controllers: active, ready, and the order of deletion.

Pure functions on pods, by the rules of Kubernetes' own controllers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from bosket.api.condition import find_condition, has_condition
from bosket.api.core import Pod, PodCondition, PodTemplateSpec
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.ownership import controller_reference
from bosket.api.time import parse_time

_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER: Final = {"": 0, "Pending": 0, "Unknown": 1, "Running": 2}


def is_terminating(pod: Pod) -> bool:
    """Whether the pod was asked to end."""
    return pod.metadata.deletionTimestamp is not None


def ready_condition(pod: Pod) -> PodCondition | None:
    """Whether the pod serves, and since when."""
    return find_condition(pod.status.conditions, "Ready")


def is_ready(pod: Pod) -> bool:
    """Whether the pod serves."""
    return has_condition(pod.status.conditions, "Ready")


def seconds_until_available(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """0 when the pod has been ready for long enough, None when it isn't ready."""
    condition = ready_condition(pod)
    if condition is None or condition.status != "True":
        return None
    if min_ready_seconds == 0 or condition.lastTransitionTime is None:
        return 0.0
    return max(0.0, parse_time(condition.lastTransitionTime) + min_ready_seconds - now)


def in_order_of_deletion(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that would be missed least come first.

    Not yet assigned before assigned, pending before running, not ready before ready, cheap (by annotation) before
    dear, from crowded nodes before others, and then those that have served for the shortest time, restarted most, or
    are youngest.
    """
    pods = list(pods)
    neighbours = Counter(pod.spec.nodeName for pod in pods if pod.spec.nodeName)

    def rank(pod: Pod) -> tuple[Any, ...]:
        condition = ready_condition(pod)
        ready = condition is not None and condition.status == "True"
        ready_since = (
            parse_time(condition.lastTransitionTime) if ready and condition and condition.lastTransitionTime else 0.0
        )
        return (
            bool(pod.spec.nodeName),
            _PHASE_ORDER.get(pod.status.phase, 2),
            ready,
            _deletion_cost(pod),
            -neighbours[pod.spec.nodeName],
            -ready_since,
            -restarts(pod),
            -parse_time(pod.metadata.creationTimestamp) if pod.metadata.creationTimestamp else 0.0,
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def restarts(pod: Pod) -> int:
    """How often the pod's containers were started again."""
    return sum(status.restartCount for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses))


def pod_of(
    owner: KubeObject,
    template: PodTemplateSpec,
    *,
    name: str = "",
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A new pod from the template of its controller `owner`, with further labels and annotations."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generateName=generate_name,
            namespace=owner.metadata.namespace,
            labels={**template.metadata.labels, **(labels or {})},
            annotations={**template.metadata.annotations, **(annotations or {})},
            finalizers=template.metadata.finalizers,
            ownerReferences=(controller_reference(owner),),
        ),
        spec=replace(template.spec),
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(_DELETION_COST, "0"))
    except ValueError:
        return 0  # as Kubernetes: an unreadable cost is no cost
