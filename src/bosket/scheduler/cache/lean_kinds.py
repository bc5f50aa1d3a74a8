"""Pods and nodes as the scheduler keeps them: what decisions may rest on, and no more.

Pods are nearly all that a scheduler holds. What their containers run, how they are probed, what became of them, and who
wrote which field is skipped when they are decoded (`bosket.api.lean`). What is kept is what a recording keeps
(`snapshot.redaction`). Parts that many pods have in common are one object (`PodSharing`).
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
from bosket.api.lean import lean, without
from bosket.api.object import ObjectMeta
from bosket.api.table import resource_of
from bosket.kube.informer import LeanKind
from bosket.scheduler.snapshot.redaction import CONTAINER_FIELDS, SPEC_FIELDS, STATUS_FIELDS, VOLUME_FIELDS

#: How API servers name the volume with the token of a pod's service account; random letters follow.
TOKEN_VOLUME: Final = "kube-api-access"  # noqa: S105 - a name
#: As many different parts are remembered to be shared. Pods come and go: when there are more, it begins anew.
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

_set: Final = msgspec.structs.force_setattr


class PodSharing:
    """Makes one object of equal parts of different pods: containers, volumes, tolerations, conditions, owners, texts.

    Called with each pod when it was just decoded and is nobody else's yet; it changes the pod in place.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, Any] = {}

    def __call__(self, pod: Pod) -> Pod:
        if len(self._parts) > MOST_PARTS:
            self._parts.clear()
        self._share_metadata(pod.metadata)
        spec, status = pod.spec, pod.status
        _set(spec, "nodeName", sys.intern(spec.nodeName))
        _set(spec, "schedulerName", sys.intern(spec.schedulerName))
        _set(spec, "restartPolicy", sys.intern(spec.restartPolicy))
        _set(status, "phase", sys.intern(status.phase))
        _set(status, "qosClass", sys.intern(status.qosClass))
        if spec.tolerations:
            _set(spec, "tolerations", self._shared(spec.tolerations))
        if status.conditions:
            _set(status, "conditions", self._shared(status.conditions))
        if spec.volumes:
            for volume in spec.volumes:
                _cut_random_name(volume)
            _set(spec, "volumes", self._shared(spec.volumes))
        if spec.containers:
            _set(spec, "containers", self._shared_containers(spec.containers))
        return pod

    def _share_metadata(self, meta: ObjectMeta) -> None:
        _set(meta, "namespace", sys.intern(meta.namespace))
        for texts in (meta.labels, meta.annotations):
            for key, value in texts.items():
                texts[key] = sys.intern(value)
        if meta.ownerReferences:
            _set(meta, "ownerReferences", self._shared(meta.ownerReferences))
        if meta.creationTimestamp is not None:
            _set(meta, "creationTimestamp", sys.intern(meta.creationTimestamp))

    def _shared_containers(self, containers: tuple[Container, ...]) -> tuple[Container, ...]:
        key: list[Hashable] = []
        for each in containers:
            for mount in each.volumeMounts:
                _cut_random_name(mount)
            asked = each.resources
            key += (
                each.name, tuple(asked.requests.items()), tuple(asked.limits.items()), asked.claims, each.ports,
                each.env, each.envFrom, each.volumeMounts, each.volumeDevices, each.restartPolicy,
            )  # fmt: skip
        shared: tuple[Container, ...] = self._shared(containers, tuple(key))
        return shared

    def _shared(self, part: Any, key: Hashable = None) -> Any:
        """The first of all parts that are equal. One that holds a map has no key, and stays its pod's own."""
        try:
            return self._parts.setdefault(part if key is None else key, part)
        except TypeError:
            return part


def _cut_random_name(named: Volume | VolumeMount) -> None:
    """Only to find a volume by its mount matters the name: with another end in each pod, no two pods would be alike."""
    if named.name.startswith(TOKEN_VOLUME):
        _set(named, "name", TOKEN_VOLUME)


def lean_kinds() -> dict[type[Any], LeanKind[Any]]:
    """By kind: how much of its objects is enough for the scheduler, and what they have in common."""
    return {
        Pod: LeanKind(dataclasses.replace(resource_of(Pod), struct=_POD), PodSharing()),
        Node: LeanKind(dataclasses.replace(resource_of(Node), struct=_NODE)),
    }
