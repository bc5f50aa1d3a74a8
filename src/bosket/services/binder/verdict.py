"""Pure checks of a BindRequest, and the outcomes of an attempt.

The binder acts only on requests that pass; each refusal is a sentence that is written into the request's status.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.pod_phase import has_ended

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
#: The resource type of a pod that shares GPUs.
FRACTION: Final = "Fraction"
#: A group is written into labels, as a value and as a part of a name.
_GROUP: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod has the node that the request names."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt failed. `final`: another one would fail for the same reason."""

    reason: str
    final: bool = False
    pod: Pod | None = None
    #: the request is malformed: it is deleted, so that the scheduler creates another one
    discard: bool = False


@dataclass(frozen=True, slots=True)
class PutOff:
    """The attempt is postponed: something else must happen first."""

    seconds: float


Outcome = Bound | Failure


def is_done(request: BindRequest) -> bool:
    """Whether the request is finished."""
    return request.metadata.deletionTimestamp is not None or request.status.phase == SUCCEEDED


def attempts_left(request: BindRequest) -> bool:
    """Whether another attempt is allowed. A request without a limit gets one attempt: the scheduler then decides
    again."""
    status, limit = request.status, request.spec.backoffLimit
    return status.phase != FAILED or (limit is not None and status.failedAttempts < limit)


def pause_seconds(request: BindRequest, longest: float) -> float:
    """The pause between a request's last failure and the next attempt."""
    exponent = min(max(request.status.failedAttempts - 1, 0), 32)
    return min(2.0**exponent, longest)


def malformed(request: BindRequest, resource_types: Collection[str]) -> Failure | None:
    """What is wrong with the request itself."""
    spec = request.spec
    for field, value, expectation in (
        ("podName", spec.podName, "the name of a pod in the same namespace"),
        ("selectedNode", spec.selectedNode, "the name of a node"),
    ):
        if not value:
            return Failure(f"BindRequest {request.key}: spec.{field} is empty; expected {expectation}", final=True)
    if spec.receivedResourceType not in resource_types:
        known = ", ".join(sorted(filter(None, resource_types)))
        return Failure(
            f'BindRequest {request.key}: spec.receivedResourceType is "{spec.receivedResourceType}"; '
            f"this binder knows {known}",
            final=True,
        )
    return _malformed_fraction(request) if spec.receivedResourceType == FRACTION else None


def _malformed_fraction(request: BindRequest) -> Failure | None:
    groups, received = request.spec.selectedGPUGroups, request.spec.receivedGPU

    def failure(field: str, expectation: str, *, discard: bool = False) -> Failure:
        return Failure(f"BindRequest {request.key}: spec.{field}; expected {expectation}", final=True, discard=discard)

    if not groups:
        # As in KAI's binder: such requests are left over from a conversion; they are deleted, and the scheduler decides
        # again.
        return failure("selectedGPUGroups is empty", "a GPU group for each device of type Fraction", discard=True)
    for group in groups:
        if not _GROUP.fullmatch(group):
            return failure(f'selectedGPUGroups has "{group}"', "what can be the value of a label")
    if len(set(groups)) < len(groups):
        return failure(f"selectedGPUGroups has a group twice: {', '.join(groups)}", "different devices")
    portion = received.portion if received is not None else ""
    if not _is_portion(portion):
        return failure(f'receivedGPU.portion is "{portion}"', 'a part of a device such as "0.50"')
    return None


def _is_portion(text: str) -> bool:
    try:
        portion = float(text)
    except ValueError:
        return False
    # 0.00 occurs: a little memory of a large device, rounded.
    return math.isfinite(portion) and 0 <= portion <= 1


def settled(request: BindRequest, pod: Pod) -> Outcome | None:
    """The outcome if the pod's state already decides it; None when the pod can be bound."""
    owners = [each for each in request.metadata.ownerReferences if (each.apiVersion, each.kind) == ("v1", "Pod")]
    if owners and all(each.uid != pod.metadata.uid for each in owners):
        # A new pod of the same name, as with StatefulSets: its placement has not been decided.
        return Failure(
            f"the request is for a pod {pod.key} with uid {owners[0].uid}, "
            f"which is gone; the one of that name has uid {pod.metadata.uid}",
            final=True,
        )
    if pod.spec.nodeName == request.spec.selectedNode:
        return Bound(pod)
    if pod.spec.nodeName:
        # KAI calls this a success. The scheduler would then count the pod on the wrong node.
        return Failure(
            f"pod {pod.key} is bound to node {pod.spec.nodeName} already, not to {request.spec.selectedNode}",
            final=True,
            pod=pod,
        )
    if pod.metadata.deletionTimestamp is not None:
        return Failure(f"pod {pod.key} is being deleted", final=True, pod=pod)
    if has_ended(pod):
        return Failure(f"pod {pod.key} has ended: it is {pod.status.phase}", final=True, pod=pod)
    return None
