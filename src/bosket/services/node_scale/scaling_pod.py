"""The scaling pod: it requests whole GPUs in the place of a pod that shares them. Pure.

What autoscalers require: the cluster autoscaler and Karpenter both add nodes for pods without a node whose condition
PodScheduled has the reason Unschedulable, whatever the scheduler. Neither does so for pods of a DaemonSet, Karpenter
not for pods with a nominated node, the cluster autoscaler not for pods with a priority below -10. The cluster
autoscaler never removes a node with a pod that no controller would recreate, unless an annotation allows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final

import msgspec

from bosket.api.core import (
    Affinity,
    Capabilities,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    WeightedPodAffinityTerm,
)
from bosket.api.keys import (
    APP_LABEL,
    NVIDIA_GPU,
    SAFE_TO_EVICT_ANNOTATION,
    SHARED_GPU_POD_NAME_LABEL,
    SHARED_GPU_POD_NAMESPACE_LABEL,
)
from bosket.api.name_rules import LONGEST_LABEL, LONGEST_NAME
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.quantity import InvalidQuantity, Quantity, add, parse
from bosket.services.node_scale.options import Options

_CONTAINER: Final = "scaling-pod"
_HASH_DIGITS: Final = 10
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def scaling_pod(source: Pod, devices: int, options: Options, taken: Collection[str] = ()) -> Pod:
    """The pod to create for `source`, which wants parts of that many GPUs; it goes wherever that one may go.

    `taken` are names that other scaling pods have.
    """
    gpus: dict[str, Quantity] = {NVIDIA_GPU: str(devices)}
    container = Container(
        name=_CONTAINER,
        image=options.scaling_pod_image,
        imagePullPolicy="IfNotPresent",
        # For the one image that has every program; KAI's, which has this one alone, looks at no arguments.
        args=("run", "scaling-pod"),
        resources=ResourceRequirements(requests={**gpus, **_cpu_and_memory(source)}, limits=gpus),
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False,
            readOnlyRootFilesystem=True,
            capabilities=Capabilities(drop=("ALL",)),
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
    )
    key = source.key
    label = key.name[:LONGEST_LABEL].rstrip("-.")
    annotations = {SAFE_TO_EVICT_ANNOTATION: "true"}
    if label != key.name:
        annotations[SHARED_GPU_POD_NAME_LABEL] = key.name
    return Pod(
        metadata=ObjectMeta(
            name=_name(key, taken),
            namespace=options.scale_adjust_namespace,
            labels={
                APP_LABEL: options.scaling_pod_app_label,
                SHARED_GPU_POD_NAME_LABEL: label,
                SHARED_GPU_POD_NAMESPACE_LABEL: key.namespace,
            },
            annotations=annotations,
        ),
        spec=PodSpec(
            # Said aloud: an embedded cluster would write ours, and nobody is to group this or count it as work.
            schedulerName="default-scheduler",
            containers=(container,),
            restartPolicy="OnFailure",
            affinity=_from_elsewhere(source.spec.affinity, key.namespace),
            tolerations=source.spec.tolerations,
            nodeSelector=source.spec.nodeSelector,
            serviceAccountName=options.scaling_pod_service_account,
            automountServiceAccountToken=False,
        ),
    )


def source_of(pod: Pod) -> ObjectKey | None:
    """For which pod a scaling pod asks; None for one that is no scaling pod."""
    labels = pod.metadata.labels
    name, namespace = labels.get(SHARED_GPU_POD_NAME_LABEL), labels.get(SHARED_GPU_POD_NAMESPACE_LABEL)
    if name is None or namespace is None:
        return None
    return ObjectKey(namespace, pod.metadata.annotations.get(SHARED_GPU_POD_NAME_LABEL, name))


def asked_gpus(pod: Pod) -> int:
    """The whole GPUs that a scaling pod asks for."""
    if not pod.spec.containers:
        return 0
    try:
        return int(parse(pod.spec.containers[0].resources.requests.get(NVIDIA_GPU, "0")))
    except InvalidQuantity:
        return 0


def _name(source: ObjectKey, taken: Collection[str]) -> str:
    name = f"{source.namespace}-{source.name}"
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    # Too long for a name, or that of another one: a-b's pod c and a's pod b-c would have the same.
    digest = hashlib.sha256(str(source).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{name[: LONGEST_NAME - _HASH_DIGITS - 1].rstrip('-.')}-{digest}"


def _cpu_and_memory(source: Pod) -> dict[str, Quantity]:
    sums: dict[str, Quantity] = {}
    for container in source.spec.containers:
        for name in ("cpu", "memory"):
            if name in container.resources.requests:
                sums[name] = add(sums.get(name, "0"), container.resources.requests[name])
    return sums


def _from_elsewhere(affinity: Affinity | None, namespace: str) -> Affinity | None:
    """The same pods, seen from another namespace: a term that names none means those of its own pod's."""
    if affinity is None:
        return None

    def term(each: PodAffinityTerm) -> PodAffinityTerm:
        if each.namespaces or each.namespaceSelector is not None:
            return each
        return msgspec.structs.replace(each, namespaces=(namespace,))

    def weighted(each: WeightedPodAffinityTerm) -> WeightedPodAffinityTerm:
        return msgspec.structs.replace(each, podAffinityTerm=term(each.podAffinityTerm))

    def terms(side: PodAffinity | PodAntiAffinity) -> dict[str, Any]:
        return {
            _REQUIRED: tuple(map(term, getattr(side, _REQUIRED))),
            _PREFERRED: tuple(map(weighted, getattr(side, _PREFERRED))),
        }

    near, apart = affinity.podAffinity, affinity.podAntiAffinity
    return msgspec.structs.replace(
        affinity,
        podAffinity=near and PodAffinity(**terms(near)),
        podAntiAffinity=apart and PodAntiAffinity(**terms(apart)),
    )
