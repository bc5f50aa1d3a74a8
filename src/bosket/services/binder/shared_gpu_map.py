"""SharedGpuMaps: the ConfigMaps by which a container learns its shared GPUs.

The container can't start before its ConfigMaps exist. The pod owns them, so they are deleted with it; a rollback
deletes them before. Each names the version of the pod that it was written for. A rollback writes the pod first and
deletes only ConfigMaps as it had read them before, so it never deletes those of a later attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from bosket.api.core import ConfigMap, Pod
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.api.shared_gpu import NVIDIA_VISIBLE_DEVICES, SharingContainer, map_names, sharing_container
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.services.binder.plugin import Refused

#: On the maps: the version of the pod that they were written for.
POD_VERSION_ANNOTATION: Final = "bosket.dev/pod-version"
#: By it, those that the binder made are found among all.
_MAP_LABEL: Final = "bosket.dev/shared-gpu"
MAP_SELECTOR: Final = f"{_MAP_LABEL}=true"
_TRIES: Final = 5


class MapTaken(Refused):
    """A ConfigMap of that name serves another pod; the message names both."""


class SharedGpuMaps:
    """Writes and deletes the ConfigMaps of pods."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def write(self, pod: Pod, name: str, data: Mapping[str, str]) -> None:
        """See to it that the pod has the map with these values; other values stay. Raises `MapTaken`."""
        owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
        version = {POD_VERSION_ANNOTATION: pod.metadata.resourceVersion}
        namespace = pod.metadata.namespace
        wanted = ConfigMap(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                labels={_MAP_LABEL: "true"},
                annotations=version,
                ownerReferences=(owner,),
            ),
            data=dict(data),
        )
        for _ in range(_TRIES):
            found = await self._create(wanted)
            if found is None:
                return
            await self._check_free(found, pod)
            meta = replace(
                found.metadata,
                labels={**found.metadata.labels, **wanted.metadata.labels},
                annotations={**found.metadata.annotations, **version},
                ownerReferences=(owner,),
            )
            with suppress(Conflict, NotFound):
                await self._client.modify(found, replace(found, metadata=meta, data={**found.data, **data}))
                return
        raise MapTaken(f"config map {namespace}/{name} of pod {pod.key} changes whenever it is written")

    async def of(self, pod: Pod) -> list[ConfigMap]:
        """The maps that were made for the pod."""
        sharing = sharing_container(pod)
        names = map_names(pod, sharing) if sharing is not None else None
        found = [await self._read(name, pod.metadata.namespace) for name in names or ()]
        return [each for each in found if each is not None and _belongs_to(each, pod)]

    async def delete(self, maps: Iterable[ConfigMap]) -> None:
        """Remove them; raises `Conflict` if somebody has written one of them since."""
        for each in maps:
            meta = each.metadata
            with suppress(NotFound):
                await self._client.delete(
                    ConfigMap, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resourceVersion
                )

    async def _create(self, wanted: ConfigMap) -> ConfigMap | None:
        """Create the map, or give the one that is there."""
        while True:
            try:
                await self._client.create(wanted)
            except AlreadyExists:
                found = await self._read(wanted.metadata.name, wanted.metadata.namespace)
                if found is not None:
                    return found
            else:
                return None

    async def _check_free(self, found: ConfigMap, pod: Pod) -> None:
        """A map that another pod reads must not change: that one would find itself on a device that isn't its own."""
        owner = owner_of(found)
        if owner is None or owner.uid == pod.metadata.uid:
            return
        try:
            other = await self._client.get(Pod, owner.name, pod.metadata.namespace)
        except NotFound:
            return
        if other.metadata.uid == owner.uid:
            raise MapTaken(f"config map {found.key}, which pod {pod.key} is to read, belongs to pod {other.key}")

    async def _read(self, name: str, namespace: str) -> ConfigMap | None:
        try:
            return await self._client.get(ConfigMap, name, namespace)
        except NotFound:
            return None


def reads_devices_by_key(sharing: SharingContainer) -> tuple[str, ...]:
    """The keys that the container's variable for its devices names; none: it takes a ConfigMap as a whole."""
    return tuple(
        variable.valueFrom.configMapKeyRef.key
        for variable in sharing.container.env
        if variable.name == NVIDIA_VISIBLE_DEVICES
        and variable.valueFrom is not None
        and variable.valueFrom.configMapKeyRef is not None
    )


def owner_of(found: ConfigMap) -> OwnerReference | None:
    """The pod that the map is for."""
    return next((each for each in found.metadata.ownerReferences if each.kind == "Pod"), None)


def _belongs_to(found: ConfigMap, pod: Pod) -> bool:
    owner = owner_of(found)
    return owner is not None and owner.uid == pod.metadata.uid
