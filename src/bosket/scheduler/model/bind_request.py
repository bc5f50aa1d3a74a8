"""The BindRequest of a decided bind: the bind writer creates it, the live state assumes it, replay shows it."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.charge import charge_annotations
from bosket.api.kai import BindRequest, BindRequestSpec, ReceivedGPU
from bosket.api.keys import SELECTED_NODE_LABEL
from bosket.api.name_rules import LONGEST_LABEL
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.kube.volume import choice_annotations
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import Mig


def bind_request_for(bind: Bind, shard: Mapping[str, str] | None = None) -> BindRequest:
    """The BindRequest that asks the binder to bind the pod. It has the pod's name, and the pod as owner.

    `shard`: the label of the scheduler's shard, if there is one.
    """
    pod = bind.task.pod
    received_type, received = _received(bind)
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    return BindRequest(
        metadata=ObjectMeta(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            labels={**({SELECTED_NODE_LABEL: bind.node} if len(bind.node) <= LONGEST_LABEL else {}), **(shard or {})},
            annotations={**choice_annotations(dict(bind.volumes)), **charge_annotations(pod)},
            ownerReferences=(owner,),
        ),
        spec=BindRequestSpec(
            podName=pod.metadata.name,
            selectedNode=bind.node,
            receivedResourceType=received_type,
            receivedGPU=received,
            selectedGPUGroups=bind.gpu_groups,
            resourceClaimAllocations=bind.claims,
            extendedResourceClaimAllocation=bind.extended_claim,
            predictedNUMAZones=bind.numa_zones,
        ),
    )


def _received(bind: Bind) -> tuple[str, ReceivedGPU]:
    """The kind of GPUs that the pod gets, and how many or how large a part."""
    pod_class = bind.task.pod_class
    if pod_class.share is not None:
        return "Fraction", ReceivedGPU(count=pod_class.share.devices, portion=f"{bind.gpu_portion:.2f}")
    if pod_class.mig is not Mig.NONE:
        return "MigInstance", ReceivedGPU(count=0, portion="0.00")
    return "Regular", ReceivedGPU(count=int(pod_class.amounts[GPU]), portion="1.00")
