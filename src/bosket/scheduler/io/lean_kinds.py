"""Pods, nodes and pod groups as the scheduler keeps them: the fields that decisions and recordings need, no more.

Pods are nearly all of the scheduler's memory. Commands, probes, managed fields and the like are skipped while decoding
(`bosket.api.lean`); what stays is what a recording keeps (`recording.redaction`). Equal parts of different pods are one
object (`PodSharing`).
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from bosket.api.core import (
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    EphemeralContainer,
    Node,
    NodeCondition,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ProjectedVolumeSource,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from bosket.api.kai import PodGroup
from bosket.api.lean import lean, without
from bosket.api.object import ObjectMeta
from bosket.api.table import resource_of
from bosket.kube.informer import LeanKind
from bosket.scheduler.recording.redaction import CONTAINER_FIELDS, SPEC_FIELDS, STATUS_FIELDS, VOLUME_FIELDS

#: How API servers name the volume with the token of a pod's service account; random letters follow.
TOKEN_VOLUME: Final = "kube-api-access"  # noqa: S105 - a name
#: The number of shared parts that are kept; the table is cleared when it is full, because pods come and go.
MOST_PARTS: Final = 8192


def _many(struct: Any) -> Any:
    return tuple.__class_getitem__((struct, ...))


_META: Any = without(ObjectMeta, ("generateName", "finalizers", "managedFields"))
_ENVIRONMENT: Any = {
    "env": _many(lean(EnvVar, ("name",), valueFrom=lean(EnvVarSource, ("configMapKeyRef",)) | None)),
    "envFrom": _many(lean(EnvFromSource, ("configMapRef",))),
    "volumeMounts": _many(lean(VolumeMount, ("name",))),
}
_CONTAINERS: Any = _many(lean(Container, CONTAINER_FIELDS, **_ENVIRONMENT))
_PROJECTED: Any = lean(ProjectedVolumeSource, (), sources=_many(lean(VolumeProjection, ("configMap",))) | None)
_POD: Any = lean(
    Pod,
    ("apiVersion", "kind"),
    metadata=_META,
    spec=lean(
        PodSpec,
        SPEC_FIELDS,
        containers=_CONTAINERS,
        initContainers=_CONTAINERS,
        ephemeralContainers=_many(lean(EphemeralContainer, ("name",), **_ENVIRONMENT)),
        volumes=_many(lean(Volume, VOLUME_FIELDS, projected=_PROJECTED | None)),
    ),
    status=lean(
        PodStatus,
        STATUS_FIELDS,
        conditions=_many(lean(PodCondition, ("type", "status", "reason", "message"))),
    ),
)
_NODE: Any = lean(
    Node,
    ("apiVersion", "kind", "spec"),
    metadata=_META,
    status=without(
        NodeStatus,
        ("images", "runtimeHandlers", "volumesAttached", "volumesInUse"),
        conditions=_many(without(NodeCondition, ("lastHeartbeatTime", "lastTransitionTime"))),
    ),
)
_GROUP: Any = lean(PodGroup, ("apiVersion", "kind", "spec", "status"), metadata=_META)

_set: Final = msgspec.structs.force_setattr


class PodSharing:
    """Replaces equal parts of different pods by one object: containers, volumes, tolerations, conditions, owners.

    Called with a pod that was just decoded and that no other code has yet; changes it in place.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, Any] = {}
        self._latest = Pod()  # pods of a job arrive one after another, and comparing two is cheaper than hashing one

    def __call__(self, pod: Pod) -> Pod:
        if len(self._parts) > MOST_PARTS:
            self._parts.clear()
        meta, spec, status, latest = pod.metadata, pod.spec, pod.status, self._latest
        _set(meta, "namespace", sys.intern(meta.namespace))
        _set(spec, "nodeName", sys.intern(spec.nodeName))
        tokens = [volume for volume in spec.volumes if volume.name.startswith(TOKEN_VOLUME)]
        if len(tokens) == 1:
            _cut_random_name(tokens[0], spec)
        if spec.containers == latest.spec.containers:
            _set(spec, "containers", latest.spec.containers)
        else:
            _set(spec, "containers", self._shared(spec.containers, _key_of_containers(spec.containers)))
        self._share(meta, "ownerReferences", latest.metadata.ownerReferences)
        self._share(spec, "tolerations", latest.spec.tolerations)
        self._share(spec, "volumes", latest.spec.volumes)
        self._share(status, "conditions", latest.status.conditions)
        self._latest = pod
        return pod

    def _share(self, whole: msgspec.Struct, name: str, latest: tuple[Any, ...]) -> None:
        part = getattr(whole, name)
        if part:
            _set(whole, name, latest if part == latest else self._shared(part, part))

    def _shared(self, part: Any, key: Hashable) -> Any:
        """The first of all parts that are equal. One that holds a map has no key, and stays its pod's own."""
        try:
            return self._parts.setdefault(key, part)
        except TypeError:
            return part


def _key_of_containers(containers: tuple[Container, ...]) -> Hashable:
    """All that is kept of containers, without maps."""
    return tuple(
        (
            each.name, tuple(each.resources.requests.items()), tuple(each.resources.limits.items()),
            each.resources.claims, each.ports, each.env, each.envFrom, each.volumeMounts, each.volumeDevices,
            each.restartPolicy,
        )
        for each in containers
    )  # fmt: skip


def _cut_random_name(volume: Volume, spec: PodSpec) -> None:
    """Removes the random suffix of a volume name, which would otherwise make every pod different."""
    containers: tuple[Container | EphemeralContainer, ...] = (
        *spec.containers,
        *spec.initContainers,
        *spec.ephemeralContainers,
    )
    for container in containers:
        for mount in container.volumeMounts:
            if mount.name == volume.name:
                _set(mount, "name", TOKEN_VOLUME)
    _set(volume, "name", TOKEN_VOLUME)


def lean_kinds() -> dict[type[Any], LeanKind[Any]]:
    """By kind: how much of its objects is enough for the scheduler, and what they have in common."""
    return {
        Pod: LeanKind(dataclasses.replace(resource_of(Pod), struct=_POD), PodSharing()),
        Node: LeanKind(dataclasses.replace(resource_of(Node), struct=_NODE)),
        PodGroup: LeanKind(dataclasses.replace(resource_of(PodGroup), struct=_GROUP)),
    }
