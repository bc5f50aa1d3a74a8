"""Shared GPUs: what reservation pods need, nodes that say how large their devices are, and pods that were left over.

Only where GPUs are shared: where the Config says so, or a pod asks for a part of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api import keys
from bosket.api.core import Namespace, Pod, ServiceAccount
from bosket.api.node_k8s import RuntimeClass
from bosket.api.pod_phase import has_ended
from bosket.api.shared_gpu import gpu_groups
from bosket.api.time import time_or_zero
from bosket.scheduler.model.gpu_share import device_memory
from bosket.tools.doctor.amount import held_by
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

_SHARING: Final = (keys.GPU_FRACTION_ANNOTATION, keys.GPU_MEMORY_ANNOTATION)
#: How long an autoscaler is given to bring a node.
_SCALING_SECONDS: Final = 900.0


def check(installation: Installation) -> Iterator[Finding]:
    """What stands in the way of sharing GPUs, and what was left behind by it."""
    sharing = [pod for pod in installation.own_pods if any(key in pod.metadata.annotations for key in _SHARING)]
    admission = installation.spec.admission
    if sharing and installation.config is not None and not (admission is not None and admission.gpuSharing):
        yield Finding(
            "gpu-sharing-off",
            Severity.ERROR,
            named(installation.config),
            "spec.admission.gpuSharing",
            f"GPU sharing is switched off, so what containers need for it is missing in {counted(len(sharing), 'pod')} "
            f"({some(pod.key for pod in sharing)})",
            "switch it on, and create the pods again",
            "kubectl patch config.kai.scheduler kai-config --type merge "
            '-p \'{"spec":{"admission":{"gpuSharing":true}}}\'',
        )
    if sharing or (admission is not None and admission.gpuSharing):
        yield from _check_surroundings(installation)
        yield from _check_nodes(installation, sharing)
    yield from _check_runtime_classes(installation, sharing)
    yield from _check_reservations(installation)
    yield from _check_scaling_pods(installation)


def _check_surroundings(installation: Installation) -> Iterator[Finding]:
    namespace, account = installation.reservation_namespace, installation.reservation_account
    if namespace not in {each.metadata.name for each in installation.bundle.of(Namespace)}:
        yield Finding(
            "reservation-namespace-missing",
            Severity.ERROR,
            f"Namespace {namespace}",
            "",
            "the namespace of reservation pods isn't there, so no pod that shares a GPU can be bound",
            "create it, with the service account and rights that reservation pods need",
            "bosket crds --install",
        )
        return
    accounts = installation.bundle.of(ServiceAccount)
    if installation.bundle.knows(ServiceAccount) and f"{namespace}/{account}" not in {
        str(each.key) for each in accounts
    }:
        yield Finding(
            "reservation-account-missing",
            Severity.ERROR,
            f"ServiceAccount {namespace}/{account}",
            "",
            "reservation pods run as this service account, which isn't there: no pod that shares a GPU can be bound",
            "create it, with the rights that reservation pods need",
            "bosket crds --install",
        )


def _check_nodes(installation: Installation, sharing: list[Pod]) -> Iterator[Finding]:
    by_memory = [pod for pod in sharing if keys.GPU_MEMORY_ANNOTATION in pod.metadata.annotations]
    unknown = [
        node.metadata.name
        for node in installation.nodes.values()
        if held_by(node)[0] and device_memory(node.metadata.labels) is None
    ]
    if unknown:
        yield Finding(
            "node-gpu-memory-unknown",
            Severity.ERROR if by_memory else Severity.WARNING,
            f"Node {unknown[0]}",
            f"metadata.labels[{keys.NODE_GPU_MEMORY_LABEL}]",
            f"the memory of GPUs is unknown on {counted(len(unknown), 'node')} ({some(unknown)}): pods that ask "
            "for GPU memory aren't placed there",
            "run GPU feature discovery, or label the nodes with the MiB of one GPU",
            f"kubectl label node {unknown[0]} {keys.NODE_GPU_MEMORY_LABEL}=81559",
        )


def _check_runtime_classes(installation: Installation, sharing: list[Pod]) -> Iterator[Finding]:
    if not installation.bundle.knows(RuntimeClass):
        return
    known = {each.metadata.name for each in installation.bundle.of(RuntimeClass)}
    missing: dict[str, list[Pod]] = {}
    for pod in sharing:
        name = pod.spec.runtimeClassName
        if name and name not in known and not pod.spec.nodeName:
            missing.setdefault(name, []).append(pod)
    for name, pods in missing.items():
        yield Finding(
            "runtime-class-missing",
            Severity.ERROR,
            named(pods[0]),
            "spec.runtimeClassName",
            f'there is no RuntimeClass "{name}", without which no kubelet starts {counted(len(pods), "pod")} '
            f"({some(pod.key for pod in pods)})",
            "install the GPU operator, or set spec.admission.gpuFractionRuntimeClassName of the Config to a class that "
            "is there (or to nothing)",
            "kubectl get runtimeclasses",
        )


def _check_reservations(installation: Installation) -> Iterator[Finding]:
    reserved: dict[tuple[str, str], Pod] = {}
    used: dict[tuple[str, str], Pod] = {}
    for pod in installation.bundle.of(Pod):
        if has_ended(pod) or pod.metadata.deletionTimestamp is not None:
            continue
        is_reservation = (
            pod.metadata.namespace == installation.reservation_namespace
            and pod.metadata.labels.get(keys.APP_LABEL) == installation.reservation_app
        )
        for group in gpu_groups(pod.metadata.labels):
            # One that isn't bound yet is prepared for any node: its group is used wherever it is.
            (reserved if is_reservation else used)[(pod.spec.nodeName, group)] = pod
    groups_in_preparation = {group for node, group in used if not node}
    for (node, group), pod in reserved.items():
        if (node, group) not in used and group not in groups_in_preparation:
            yield Finding(
                "reservation-orphan",
                Severity.WARNING,
                named(pod),
                f"metadata.labels[{keys.GPU_GROUP_LABEL}]",
                f"nobody uses the GPU group {group} on {node}: a whole GPU is held for nothing",
                "see whether the binder runs, which removes such pods, or delete it",
                f"kubectl delete pod -n {pod.metadata.namespace} {pod.metadata.name}",
            )
    for (node, group), pod in used.items():
        if node and (node, group) not in reserved:
            yield Finding(
                "reservation-missing",
                Severity.ERROR,
                named(pod),
                f"metadata.labels[{keys.GPU_GROUP_LABEL}]",
                f"no pod reserves the GPU group {group} on {node}, which this one uses: others may be given that GPU",
                "see whether the binder runs, which repairs this, or delete the pod",
                f"kubectl get pods -n {installation.reservation_namespace} --field-selector spec.nodeName={node}",
            )


def _check_scaling_pods(installation: Installation) -> Iterator[Finding]:
    pods = {pod.key for pod in installation.bundle.of(Pod)}
    now = installation.bundle.now
    for pod in installation.bundle.of(Pod):
        labels = pod.metadata.labels
        if pod.metadata.namespace != installation.scale_namespace or labels.get(keys.APP_LABEL) != keys.SCALING_POD_APP:
            continue
        source = (labels.get(keys.SHARED_GPU_POD_NAMESPACE_LABEL, ""), labels.get(keys.SHARED_GPU_POD_NAME_LABEL, ""))
        delete = f"kubectl delete pod -n {pod.metadata.namespace} {pod.metadata.name}"
        if source not in pods:
            yield Finding(
                "scaling-pod-orphan",
                Severity.WARNING,
                named(pod),
                f"metadata.labels[{keys.SHARED_GPU_POD_NAME_LABEL}]",
                f"the pod {'/'.join(source)} that it asks for a node for is gone: it brings nodes that nobody needs",
                "see whether the node scale adjuster runs, which removes such pods, or delete it",
                delete,
            )
        elif not pod.spec.nodeName and now is not None:
            age = now - time_or_zero(pod.metadata.creationTimestamp)
            if age > _SCALING_SECONDS:
                yield Finding(
                    "scaling-pod-pending",
                    Severity.WARNING,
                    named(pod),
                    "spec.nodeName",
                    f"no autoscaler has brought a node for it in {age / 60:.0f} minutes, and while it waits no GPU is "
                    "newly shared",
                    "see what the autoscaler says, or delete the pod",
                    delete,
                )
