"""The reservation pod: its name, its spec, and what its status says. Pure.

There is one per node and group, with a name derived from both, so that of several creators the API server lets one
succeed.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bosket.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec, ResourceRequirements
from bosket.api.keys import (
    APP_LABEL,
    GPU_GROUP_LABEL,
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    NVIDIA_GPU,
    RESERVED_GPU_ANNOTATION,
)
from bosket.api.object import ObjectMeta
from bosket.api.quantity import Quantity
from bosket.services.binder.options import ReservationOptions

_CONTAINER: Final = "resource-reservation"


def reservation_name(node: str, group: str) -> str:
    """The name of the pod that holds the group's GPU on the node."""
    return f"gpu-reservation-{hashlib.sha256(f'{node}/{group}'.encode()).digest()[:8].hex()}"


def reservation_pod(source: Pod, node: str, group: str, options: ReservationOptions) -> Pod:
    """The pod to create for `source`, the first pod that shares the GPU; with its tolerations and node."""
    resources = options.pod_resources
    container = Container(
        name=_CONTAINER,
        image="ubuntu" if options.fake_gpu_nodes else options.pod_image,
        imagePullPolicy="IfNotPresent",
        args=("sleep", "infinity") if options.fake_gpu_nodes else (),
        env=(_field("POD_NAME", "metadata.name"), _field("POD_NAMESPACE", "metadata.namespace")),
        resources=ResourceRequirements(
            limits=_with_gpu(resources.limits),
            requests=_with_gpu(resources.requests),
        ),
        securityContext=options.container_security_context,
    )
    return Pod(
        metadata=ObjectMeta(
            name=reservation_name(node, group),
            namespace=options.namespace,
            labels={APP_LABEL: options.app_label, GPU_GROUP_LABEL: group},
            annotations={KARPENTER_DO_NOT_DISRUPT_ANNOTATION: "true"},
        ),
        spec=PodSpec(
            nodeName=node,
            # Set explicitly: with our scheduler's name the pod would be grouped and counted as a workload.
            schedulerName="default-scheduler",
            containers=(container,),
            tolerations=source.spec.tolerations,
            serviceAccountName=options.service_account,
            runtimeClassName=options.runtime_class_name or None,
            securityContext=options.pod_security_context,
        ),
    )


def reserved_device(reservation: Pod) -> str:
    """The UUID of the pod's GPU; empty while unknown."""
    return reservation.metadata.annotations.get(RESERVED_GPU_ANNOTATION, "")


def why_ended(pod: Pod) -> str:
    """What the pod's status says about its end."""
    reason, message = pod.status.reason, pod.status.message
    return ": ".join(filter(None, (reason, message))) or f"it is {pod.status.phase}"


def _with_gpu(others: dict[str, Quantity]) -> dict[str, Quantity]:
    return {**others, NVIDIA_GPU: "1"}


def _field(name: str, path: str) -> EnvVar:
    return EnvVar(name=name, valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=path)))
