"""Redaction: what a recording leaves out: secrets, and fields that no decision depends on.

Recordings are sent to other people. Literal values of environment variables, commands, images, annotations of other
programs, messages of containers: none of it is needed to decide again. The table lists what is kept; a plugin that
reads another field or annotation needs it added here.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec.structs import replace

from bosket.api import keys
from bosket.api.core import (
    Container,
    CSIPersistentVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    PodStatus,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)
from bosket.api.kai import BindRequest
from bosket.api.object import KubeObject
from bosket.api.resource_k8s import AllocationResult, DeviceClass, ResourceClaim
from bosket.api.storage import StorageClass
from bosket.kube import volume
from bosket.kube.informer import without_managed_fields
from bosket.scheduler.state.volumes.storage_driver import attachment_of

T = TypeVar("T", bound=KubeObject)

#: Annotations that a decision may rest on. People and other programs write anything into the others: whole manifests,
#: addresses, tokens.
KEPT_ANNOTATIONS: Final = frozenset(
    {
        keys.POD_GROUP_ANNOTATION,
        keys.GPU_FRACTION_ANNOTATION,
        keys.GPU_FRACTION_CONTAINER_ANNOTATION,
        keys.GPU_FRACTION_DEVICES_ANNOTATION,
        keys.GPU_MEMORY_ANNOTATION,
        keys.MPS_ANNOTATION,
        keys.RECEIVED_RESOURCE_TYPE_ANNOTATION,
        keys.RESERVED_GPU_ANNOTATION,
        keys.SHARED_GPU_CONFIG_MAP_ANNOTATION,
        keys.EXTENDED_RESOURCE_CLAIM_ANNOTATION,
        keys.POD_CLAIM_NAME_ANNOTATION,
        volume.BIND_COMPLETED_ANNOTATION,
        volume.BOUND_BY_CONTROLLER_ANNOTATION,
        volume.OLD_CLASS_ANNOTATION,
        volume.PROVISIONED_BY_ANNOTATION,
        volume.SELECTED_NODE_ANNOTATION,
    }
)
#: What the names of others begin with: KAI's own, ours, and instances of GPUs.
KEPT_ANNOTATION_PREFIXES: Final = ("kai.scheduler/", "bosket.dev/", keys.MIG_RESOURCE_PREFIX)
#: The pod grouper's: a copy of the owner's metadata.
LEFT_OUT_ANNOTATIONS: Final = frozenset({keys.TOP_OWNER_ANNOTATION})

#: Fields of a pod's spec that decisions may rest on. Containers and volumes are kept in part.
SPEC_FIELDS: Final = (
    "activeDeadlineSeconds",
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "workloadRef",
)
#: Fields of a pod's status that decisions, or what is said about them, may rest on.
STATUS_FIELDS: Final = (
    "allocatedResources",
    "conditions",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "nominatedNodeName",
    "phase",
    "qosClass",
    "reason",
    "resize",
    "resourceClaimStatuses",
    "resources",
    "startTime",
)
#: Fields of a volume's spec that decisions may rest on.
VOLUME_SPEC_FIELDS: Final = (
    "accessModes",
    "capacity",
    "claimRef",
    "nodeAffinity",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
CONTAINER_FIELDS: Final = ("name", "ports", "resources", "restartPolicy", "volumeMounts", "volumeDevices")
VOLUME_FIELDS: Final = ("name", "configMap", "emptyDir", "ephemeral", "persistentVolumeClaim")


def bare(obj: T) -> T:
    """The object without the records of who wrote what, and without annotations that no decision rests on."""
    slim = without_managed_fields(obj)
    annotations = slim.metadata.annotations
    kept = {key: value for key, value in annotations.items() if is_kept(key)}
    return slim if len(kept) == len(annotations) else replace(slim, metadata=replace(slim.metadata, annotations=kept))


def is_kept(annotation: str) -> bool:
    """Whether an annotation of this name is written down."""
    if annotation in LEFT_OUT_ANNOTATIONS:
        return False
    return annotation in KEPT_ANNOTATIONS or annotation.startswith(KEPT_ANNOTATION_PREFIXES)


def bare_pod(pod: Pod) -> Pod:
    """The pod as far as decisions rest on it."""
    spec = pod.spec
    return replace(
        bare(pod),
        spec=PodSpec(
            **_part(spec, SPEC_FIELDS),
            containers=tuple(map(_container, spec.containers)),
            initContainers=tuple(map(_container, spec.initContainers)),
            volumes=tuple(map(_volume, spec.volumes)),
        ),
        status=PodStatus(**_part(pod.status, STATUS_FIELDS)),
    )


def bare_volume(volume: PersistentVolume) -> PersistentVolume:
    """The volume as far as decisions rest on it; how it is mounted is nobody's business."""
    attached = attachment_of(volume)
    slim = CSIPersistentVolumeSource(driver=attached.driver, volumeHandle=attached.handle) if attached else None
    return replace(bare(volume), spec=PersistentVolumeSpec(**_part(volume.spec, VOLUME_SPEC_FIELDS), csi=slim))


def bare_storage_class(storage_class: StorageClass) -> StorageClass:
    """The class without what it tells its provisioner."""
    return replace(bare(storage_class), parameters={}, mountOptions=())


def bare_claim(claim: ResourceClaim) -> ResourceClaim:
    """The claim without what it tells the driver of its devices."""
    slim = bare(claim)
    devices = replace(slim.spec.devices, config=())
    status = replace(slim.status, allocation=_allocation(slim.status.allocation), devices=())
    return replace(slim, spec=replace(slim.spec, devices=devices), status=status)


def bare_device_class(device_class: DeviceClass) -> DeviceClass:
    """The class without what it tells the driver of its devices."""
    slim = bare(device_class)
    return replace(slim, spec=replace(slim.spec, config=()))


def bare_bind_request(request: BindRequest) -> BindRequest:
    """The request without what it tells drivers."""
    slim = bare(request)
    given = slim.spec.resourceClaimAllocations
    claims = tuple(replace(each, allocation=_allocation(each.allocation)) for each in given)
    return replace(slim, spec=replace(slim.spec, resourceClaimAllocations=claims)) if claims else slim


def _allocation(allocation: AllocationResult | None) -> AllocationResult | None:
    return replace(allocation, devices=replace(allocation.devices, config=())) if allocation is not None else None


def _part(whole: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(whole, name) for name in fields}


def _container(container: Container) -> Container:
    """Of the environment only which ConfigMaps it needs: a pod waits for those that don't exist."""
    env = tuple(
        EnvVar(name=each.name, valueFrom=EnvVarSource(configMapKeyRef=each.valueFrom.configMapKeyRef))
        for each in container.env
        if each.valueFrom is not None and each.valueFrom.configMapKeyRef is not None
    )
    env_from = tuple(
        EnvFromSource(configMapRef=each.configMapRef) for each in container.envFrom if each.configMapRef is not None
    )
    return Container(**_part(container, CONTAINER_FIELDS), env=env, envFrom=env_from)


def _volume(volume: Volume) -> Volume:
    """Other sources are kept as a name alone: nodes are chosen without them, and some hold passwords."""
    projected = None
    if volume.projected is not None:
        maps = tuple(VolumeProjection(configMap=each.configMap) for each in volume.projected.sources or ())
        projected = ProjectedVolumeSource(sources=tuple(each for each in maps if each.configMap is not None))
    return Volume(**_part(volume, VOLUME_FIELDS), projected=projected)
