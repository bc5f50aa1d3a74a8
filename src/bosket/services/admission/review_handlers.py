"""Review handlers: from an admission review to a verdict, by the pure rules of this package.

New pods are first completed, then validated; other kinds are validated only. An object that can't be decoded is
refused: an API server that knows newer fields would send a newer version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from bosket.api.admission import AdmissionRequest
from bosket.api.core import Pod
from bosket.api.kai import PodGroup, Queue, Topology
from bosket.api.object import KubeObject
from bosket.kube.access import read_rule
from bosket.kube.patch import json_patch
from bosket.runtime.webhook.review import AnyReviewHandler
from bosket.runtime.webhook.verdict import ADMITTED, Refusal, Verdict
from bosket.services.admission import namespace_policy, pod, podgroup, queue, topology
from bosket.services.admission.access import Known, check_access
from bosket.services.admission.options import Options, PodRules

T = TypeVar("T", bound=KubeObject)

#: Paths as controller-runtime makes them, which KAI's configurations name.
MUTATE_PODS: Final = "/mutate--v1-pod"
VALIDATE_PODS: Final = "/validate--v1-pod"
VALIDATE_QUEUES: Final = "/validate-scheduling-run-ai-v2-queue"
VALIDATE_POD_GROUPS: Final = "/validate-scheduling-run-ai-v2alpha2-podgroup"
VALIDATE_TOPOLOGIES: Final = "/validate-kai-scheduler-v1alpha1-topology"
#: Bosket's own: workloads, only about who may use what they name.
VALIDATE_ACCESS: Final = "/validate-access"

#: The queues that there are, by name.
Queues = Callable[[], Mapping[str, Queue]]
#: The pod groups that there are, read from the API server.
PodGroups = Callable[[], Awaitable[Iterable[PodGroup]]]


def review_handlers(options: Options, known: Known, groups: PodGroups) -> dict[str, AnyReviewHandler]:
    """Who answers on which path."""

    def review_queue(request: AdmissionRequest) -> Verdict | Awaitable[Verdict]:
        if request.operation == "DELETE":
            return check_queue_deletion(request, known.queues, groups)
        return check_queue(request, known.queues, options)

    def accessible(request: AdmissionRequest) -> Verdict:
        return check_access(request, options, known)

    return {
        MUTATE_PODS: lambda request: complete_pod(request, options, known.labels(request.namespace)),
        VALIDATE_PODS: lambda request: both(check_pod(request, options.pods), accessible(request)),
        VALIDATE_QUEUES: review_queue,
        VALIDATE_POD_GROUPS: lambda request: both(check_pod_group(request), accessible(request)),
        VALIDATE_TOPOLOGIES: check_topology,
        VALIDATE_ACCESS: accessible,
    }


def both(first: Verdict, second: Verdict) -> Verdict:
    """Both verdicts as one; neither of them changes the object."""
    return Verdict((*first.refusals, *second.refusals), (*first.warnings, *second.warnings))


def complete_pod(request: AdmissionRequest, options: Options, namespace: Mapping[str, str]) -> Verdict:
    """What a new pod lacks. One that is wrong is left as it is: it will be refused when it is checked.

    `namespace`: the labels of the one that the pod is in.
    """
    if request.operation != "CREATE":
        return ADMITTED
    before = _decode(request.object, Pod)
    if isinstance(before, Verdict):
        return before
    ours = namespace_policy.follow(before, namespace, options.pods.scheduler_name, options.queue_label_key)
    after = pod.mutate(ours, options.pods)
    if after is before:
        return ADMITTED
    return Verdict(patch=tuple(json_patch(msgspec.to_builtins(before), msgspec.to_builtins(after))))


def check_pod(request: AdmissionRequest, rules: PodRules) -> Verdict:
    """Validates the creation or update of a pod."""
    new = _decode(request.object, Pod)
    if isinstance(new, Verdict):
        return new
    old = _decode(request.oldObject, Pod) if request.operation == "UPDATE" else None
    if isinstance(old, Pod):
        return Verdict(pod.validate_update(old, new, rules))
    return Verdict(pod.validate(new, rules))


def check_queue(request: AdmissionRequest, queues: Queues, options: Options) -> Verdict:
    """Whether a queue may be as it is; where access control is on, also its rule about who may use it."""
    new = _decode(request.object, Queue)
    if isinstance(new, Verdict):
        return new
    old = _decode(request.oldObject, Queue) if request.operation == "UPDATE" else None
    sums = options.enable_quota_validation
    verdict = queue.check(new, old if isinstance(old, Queue) else None, queues(), sums=sums)
    rule = read_rule(f"queue {new.metadata.name}", new.metadata.annotations)
    if options.access_control and rule.problem:
        return both(verdict, Verdict((Refusal("metadata.annotations", rule.problem),)))
    return verdict


async def check_queue_deletion(request: AdmissionRequest, queues: Queues, groups: PodGroups) -> Verdict:
    """Whether a queue may go.

    Pod groups are read only where the queue says that it is in use: what it says is a moment old, and doesn't tell
    whose pods those are.
    """
    going = _decode(request.oldObject, Queue)
    if isinstance(going, Verdict):
        return going
    return queue.check_deletion(going, queues(), await groups() if queue.says_it_is_used(going) else ())


def check_pod_group(request: AdmissionRequest) -> Verdict:
    """Whether a pod group may be as it is."""
    new = _decode(request.object, PodGroup)
    if isinstance(new, Verdict):
        return new
    return podgroup.check(new, is_update=request.operation == "UPDATE")


def check_topology(request: AdmissionRequest) -> Verdict:
    """Whether a topology may be as it is."""
    new = _decode(request.object, Topology)
    return new if isinstance(new, Verdict) else topology.check(new)


def _decode(document: Any, kind: type[T]) -> T | Verdict:
    """The object; or the verdict, where it is none."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        return Verdict((Refusal("", f"can't be read as a {kind.__name__}: {error}"),))
