"""GpuSharing: the plugin gpusharing: prepares a pod's parts of GPUs.

Before the bind the pod gets the labels of its groups, each group a reservation pod that holds its GPU, and the
container the ConfigMaps that name its devices. The labels come first: from then on other components see that the groups
are in use. The bind insists on this very resourceVersion of the pod, so it fails if the labels were removed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from bosket.api.core import Pod
from bosket.api.keys import (
    GPU_FRACTION_CONTAINER_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    SHARED_DEVICES_ANNOTATION,
    SHARED_GPU_CONFIG_MAP_ANNOTATION,
)
from bosket.api.shared_gpu import (
    GPU_PORTION,
    NUMBER_OF_GPUS,
    NVIDIA_VISIBLE_DEVICES,
    MapNames,
    SharingContainer,
    map_names,
    shared_devices,
    sharing_container,
)
from bosket.kube.errors import Conflict, NotFound
from bosket.runtime.service import Environment
from bosket.services.binder.gpu_consistency import GpuConsistency, whole_gpus
from bosket.services.binder.gpu_preparation import GpuPreparations
from bosket.services.binder.group_label import with_groups
from bosket.services.binder.options import Options
from bosket.services.binder.plugin import Attempt, BindPlugin, Refused
from bosket.services.binder.reservation import Reservations
from bosket.services.binder.shared_gpu_map import SharedGpuMaps, reads_devices_by_key
from bosket.services.binder.verdict import FRACTION

_CDI_PREFIX: Final = "k8s.device-plugin.nvidia.com/gpu="
_TRIES: Final = 5


class GpuSharing(BindPlugin):
    """Reserves shared GPUs and writes the ConfigMaps for containers."""

    name = "gpusharing"
    priority = 100
    resource_types: ClassVar[frozenset[str]] = frozenset({FRACTION})

    def __init__(self, env: Environment, options: Options, *, cdi_enabled: bool = False) -> None:
        self._client = env.client
        self._pods = env.informers.of(Pod)
        self._cdi_enabled = cdi_enabled
        self._reservations = Reservations(env, options)
        self._consistency = GpuConsistency(env, options, self._reservations)
        self._preparations = GpuPreparations(env, options)
        self._maps = SharedGpuMaps(env.client)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._consistency.run())
            group.create_task(self._preparations.run())

    async def pre_bind(self, attempt: Attempt) -> None:
        node, spec = attempt.node.metadata.name, attempt.request.spec
        is_fraction = spec.receivedResourceType == FRACTION
        missing = self._consistency.missing_reservations(node, spec.selectedGPUGroups) if is_fraction else 0
        await self._consistency.settle_node(attempt.node, missing or whole_gpus(attempt.pod))
        if not is_fraction:
            return
        sharing, names = check_pod(attempt.pod, spec.selectedGPUGroups)
        attempt.pod = await self._label(attempt.pod, spec.selectedGPUGroups)
        attempt.pod_version = attempt.pod.metadata.resourceVersion
        devices = []
        for group in spec.selectedGPUGroups:
            async with self._reservations.hold(group):
                devices.append(await self._reservations.device(attempt.pod, node, group))
        attempt.annotations[SHARED_DEVICES_ANNOTATION] = ",".join(devices)
        portion = spec.receivedGPU.portion if spec.receivedGPU is not None else ""
        await self._tell(attempt.pod, sharing, names, devices, portion)

    async def rollback(self, attempt: Attempt) -> None:
        if attempt.request.spec.receivedResourceType != FRACTION:
            return
        await self._preparations.undo(attempt.pod)
        for group in attempt.request.spec.selectedGPUGroups:
            await self._consistency.settle(group, given_up=attempt.request.key)

    async def _label(self, pod: Pod, groups: Sequence[str]) -> Pod:
        """The pod with the labels of exactly these groups."""
        for _ in range(_TRIES):
            try:
                labelled = await self._client.modify(pod, with_groups(pod, groups))
            except Conflict:
                pod = await self._read(pod)
            else:
                self._pods.store.put(labelled)
                return labelled
        raise Refused(f"pod {pod.key} changes whenever the labels of its GPU groups are written")

    async def _read(self, pod: Pod) -> Pod:
        try:
            now = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            raise Refused(f"pod {pod.key} was not found", final=True) from None
        if now.metadata.uid != pod.metadata.uid or now.spec.nodeName:
            raise Refused(f"pod {pod.key} is not the one any more that was to be bound", final=True)
        return now

    async def _tell(
        self, pod: Pod, sharing: SharingContainer, names: MapNames, devices: Sequence[str], portion: str
    ) -> None:
        """Write the ConfigMaps that the container reads."""
        visible = ",".join(f"{_CDI_PREFIX}{device}" if self._cdi_enabled else device for device in devices)
        capabilities = {GPU_PORTION: portion, NUMBER_OF_GPUS: portion}
        environment = {}
        by_key = reads_devices_by_key(sharing)
        if by_key:
            # Pods of old read another key.
            capabilities.update(dict.fromkeys((NVIDIA_VISIBLE_DEVICES, *by_key), visible))
        else:
            environment[NVIDIA_VISIBLE_DEVICES] = visible
        await self._maps.write(pod, names.capabilities, capabilities)
        await self._maps.write(pod, names.environment, environment)


def check_pod(pod: Pod, groups: Sequence[str]) -> tuple[SharingContainer, MapNames]:
    """The container that shares GPUs and the ConfigMaps it reads; raises `Refused` where the pod doesn't say."""
    annotations = pod.metadata.annotations
    asked = shared_devices(pod)
    if asked is None:
        text = annotations.get(GPU_FRACTION_DEVICES_ANNOTATION)
        raise Refused(f'pod {pod.key}: annotation {GPU_FRACTION_DEVICES_ANNOTATION} is "{text}", not a positive number')
    if asked != len(groups):
        raise Refused(
            f"pod {pod.key} asks for parts of {asked} devices (annotation {GPU_FRACTION_DEVICES_ANNOTATION}), "
            f"spec.selectedGPUGroups of its BindRequest names {len(groups)}",
            final=True,
        )
    sharing = sharing_container(pod)
    if sharing is None:
        wanted = annotations.get(GPU_FRACTION_CONTAINER_ANNOTATION)
        raise Refused(f'pod {pod.key}: annotation {GPU_FRACTION_CONTAINER_ANNOTATION} names "{wanted}", no container')
    names = map_names(pod, sharing)
    if names is None:
        raise Refused(
            f"pod {pod.key} has no annotation {SHARED_GPU_CONFIG_MAP_ANNOTATION}; admission puts it on pods that ask "
            "for a part of a GPU: is it running, with GPU sharing enabled?"
        )
    return sharing, names
