"""GpuConsistency: keeps reservations and the pods that use them together: a reconciler on groups of shared GPUs.

A group is reconciled at start-up, when one of its pods ends or is deleted, and when a request that names it is deleted
or given up. The key is the group alone, which belongs to one node: pods that are about to be bound have its label and
no node yet.

The store says whether something should be done; what is done is decided on objects read from the API server, because a
pod that our watch has not shown yet may be using a GPU.

Labels say which pods are in a group, but a user may remove them from a running pod. So a pod also counts as a user of
the groups in its bind request, until it ends. If neither is left and the pod still shares GPUs, no reservation on its
node is deleted.

Anybody who may create a pod may also label it. So without a bind request, labels and annotations count only on pods of
our scheduler that requested parts of GPUs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from bosket.api.charge import is_for
from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import GPU_GROUP_LABEL, GPU_GROUP_LABEL_PREFIX, NVIDIA_GPU
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.api.quantity import to_milli
from bosket.api.shared_gpu import asks_for_part, gpu_groups, seems_to_share
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.kube.informer import Informer
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment
from bosket.services.binder.gpu_preparation import requested_pod, requests_for, watch_requests_by_pod
from bosket.services.binder.group_state import Cleanup, cleanup, is_open
from bosket.services.binder.options import Options
from bosket.services.binder.reservation import Reservations
from bosket.services.binder.reservation_pod import reservation_name

_log = logging.getLogger(__name__)

_GROUP_INDEX: Final = "binder-gpu-group"
#: Pods that share GPUs, whatever their labels say, by node.
_SHARING_INDEX: Final = "binder-gpu-sharing"
#: Pods that have to do with GPUs, by node.
_NODE_INDEX: Final = "binder-gpu-node"
NAME: Final = "gpu-reservation"


class GpuConsistency:
    """Makes sure that every reservation has a user, and every user a reservation."""

    def __init__(self, env: Environment, options: Options, reservations: Reservations) -> None:
        self._client = env.client
        self._events = env.events.for_component("binder")
        self._namespace = options.reservation.namespace
        self._scheduler_name = options.scheduler_name
        self._reservations = reservations
        self._pods: Informer[Pod] = env.informers.of(Pod)
        self._requests: Informer[BindRequest] = env.informers.of(BindRequest)
        self._pods.add_index(_GROUP_INDEX, _groups)
        self._pods.add_index(_NODE_INDEX, _nodes)
        self._pods.add_index(_SHARING_INDEX, _sharing_nodes)
        watch_requests_by_pod(self._requests)
        self._requests.add_index(_GROUP_INDEX, _requested_groups)
        self._controller: Controller[str] = Controller(
            NAME,
            self._reconcile,
            workers=options.max_concurrent_reconciles,
            clock=env.clock,
            metrics=env.metrics,
            backoff=options.backoff(),
        )
        self._controller.watch(self._pods, self._groups_to_look_at)
        self._controller.watch(self._requests, _requested_groups)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._controller.run()

    async def settle_node(self, node: Node, wanted: int) -> None:
        """Reconciles all groups of the node before a bind, so that GPUs that are free can be used.

        `wanted`: how many whole GPUs the pod needs. If too few seem free, the scheduler's watch may be ahead of ours
        and know that the last user of a shared GPU is gone; the kubelet would reject the pod if the reservation still
        existed.
        """
        pods = self._pods.store.by_index(_NODE_INDEX, node.metadata.name)
        for group in sorted({group for pod in pods for group in _groups(pod)}):
            with self._alone(group):
                await self.settle(group)
        pods = self._pods.store.by_index(_NODE_INDEX, node.metadata.name)
        free = to_milli(node.status.allocatable.get(NVIDIA_GPU, 0)) // 1000 - sum(map(whole_gpus, pods))
        if wanted <= free:
            return
        reservations = [pod for pod in pods if pod.metadata.namespace == self._namespace]
        for group in sorted({group for pod in reservations for group in _groups(pod)}):
            if not any(map(is_open, self._requests.store.by_index(_GROUP_INDEX, group))):
                with self._alone(group):
                    await self._settle_now(group, None)

    @contextmanager
    def _alone(self, group: str) -> Iterator[None]:
        """Holds the group's lock; a failure in one group must not stop the bind of a pod that may not use it."""
        try:
            yield
        except ApiError as error:
            _log.warning("cannot settle a GPU group before a bind", extra={"group": group, "error": str(error)})

    def missing_reservations(self, node: str, groups: Iterable[str]) -> int:
        """How many of the groups have no reservation on the node yet."""
        names = (ObjectKey(self._namespace, reservation_name(node, group)) for group in groups)
        return sum(self._pods.store.get(name) is None for name in names)

    async def settle(self, group: str, *, given_up: ObjectKey | None = None) -> None:
        """Reconciles one group; the request `given_up` no longer counts, whatever its status says."""
        if not self._cleanup(self._members(group), group, given_up):
            return
        await self._settle_now(group, given_up)

    async def _settle_now(self, group: str, given_up: ObjectKey | None) -> None:
        async with self._reservations.hold(group):
            await self._carry_out(self._cleanup(await self._live_members(group), group, given_up), group)

    async def _reconcile(self, group: str) -> float | None:
        await self.settle(group)
        return None

    def _cleanup(self, pods: list[Pod], group: str, given_up: ObjectKey | None) -> Cleanup:
        requests = [each for each in self._requests.store.by_index(_GROUP_INDEX, group) if each.key != given_up]
        unknown = {
            pod.spec.nodeName
            for pod in pods
            if pod.metadata.namespace == self._namespace and self._is_untold(pod.spec.nodeName)
        }
        return cleanup(pods, requests, self._namespace, unknown_nodes=unknown)

    def _is_untold(self, node: str) -> bool:
        """Whether a pod on the node shares GPUs, and neither its labels nor a request say which."""
        return any(
            self._is_ours(pod)
            and not _groups(pod)
            and not any(is_for(each, pod) for each in requests_for(self._requests, pod.key))
            for pod in self._pods.store.by_index(_SHARING_INDEX, node)
        )

    def _members(self, group: str) -> list[Pod]:
        """The pods of the group: by their bind requests, else by their labels."""
        labelled = self._pods.store.by_index(_GROUP_INDEX, group)
        found = {pod.key: pod for pod in labelled if self._is_told_by_labels(pod, group)}
        for request in self._requests.store.by_index(_GROUP_INDEX, group):
            pod = self._pods.store.get(requested_pod(request))
            if pod is not None and is_for(request, pod):
                found[pod.key] = pod
        return list(found.values())

    async def _live_members(self, group: str) -> list[Pod]:
        """The same, as the API server has it now.

        A pod that was labelled when our watch last showed it, and isn't any more, still has the GPU if it has a node.
        """
        one = await self._client.list(Pod, labels=f"{GPU_GROUP_LABEL}={group}")
        several = await self._client.list(Pod, labels=f"{GPU_GROUP_LABEL_PREFIX}{group}={group}")
        found = {pod.key: pod for pod in (*one.items, *several.items) if self._is_told_by_labels(pod, group)}
        known = {pod.key: pod.metadata.uid for pod in self._members(group)}
        for key in {*known, *map(requested_pod, self._requests.store.by_index(_GROUP_INDEX, group))} - found.keys():
            pod = await self._read(key)
            if pod is not None and pod.spec.nodeName and self._had(pod, group, known.get(key)):
                found[key] = pod
        return list(found.values())

    def _is_told_by_labels(self, pod: Pod, group: str) -> bool:
        """Whether a pod with the group's label is in it: not if it got its node by a request for others.

        A pod without any request may have lost it, or may never have had one: the latter has no part in the group.
        """
        if pod.metadata.namespace == self._namespace:
            return True
        requests = [each for each in requests_for(self._requests, pod.key) if is_for(each, pod)]
        if not requests:
            return self._is_ours(pod) and (asks_for_part(pod) or seems_to_share(pod))
        return any(group in each.spec.selectedGPUGroups for each in requests)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.schedulerName == self._scheduler_name

    def _had(self, pod: Pod, group: str, known_uid: str | None) -> bool:
        requests = self._requests.store.by_index(_GROUP_INDEX, group)
        return pod.metadata.uid == known_uid or any(is_for(each, pod) for each in requests)

    async def _read(self, key: ObjectKey) -> Pod | None:
        try:
            return await self._client.get(Pod, key.name, key.namespace)
        except NotFound:
            return None

    def _groups_to_look_at(self, pod: Pod) -> tuple[str, ...]:
        """Those of its labels, and of its requests: it may have lost its labels before it ends."""
        if pod.metadata.namespace == self._namespace:
            return _groups(pod)
        requested = {
            group
            for request in requests_for(self._requests, pod.key)
            if is_for(request, pod)
            for group in request.spec.selectedGPUGroups
        }
        if not requested and not _groups(pod) and _sharing_nodes(pod):
            # This pod may be the reason why reservations of its node are kept.
            neighbours = self._pods.store.by_index(_NODE_INDEX, pod.spec.nodeName)
            requested = {group for each in neighbours for group in _groups(each)}
        return tuple(sorted(requested.union(_groups(pod))))

    async def _carry_out(self, todo: Cleanup, group: str) -> None:
        for pod in todo.stop:
            await self._stop(pod, group)
        for pod in todo.release:
            _log.info("reservation is not needed any more", extra={"pod": str(pod.key), "group": group})
            await self._reservations.delete(pod)

    async def _stop(self, pod: Pod, group: str) -> None:
        message = f"Pod runs on a GPU of group {group} that no reservation pod holds for it any more: deleting it"
        _log.warning("pod without reservation", extra={"pod": str(pod.key), "group": group})
        with suppress(NotFound, Conflict):
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
            self._events.event(pod, "Warning", "GPUReservationLost", message)


def _groups(pod: Pod) -> tuple[str, ...]:
    return gpu_groups(pod.metadata.labels)


def _sharing_nodes(pod: Pod) -> tuple[str, ...]:
    """The node on which the pod shares GPUs, by what can't be changed (its spec) or what is left of its annotations."""
    return (pod.spec.nodeName,) if pod.spec.nodeName and not has_ended(pod) and seems_to_share(pod) else ()


def whole_gpus(pod: Pod) -> int:
    """The number of whole GPUs that the pod has or requests."""
    limits = [each.resources.limits[NVIDIA_GPU] for each in pod.spec.containers if NVIDIA_GPU in each.resources.limits]
    return sum(map(to_milli, limits)) // 1000 if limits and not has_ended(pod) else 0


def _nodes(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.nodeName,) if pod.spec.nodeName and (_groups(pod) or whole_gpus(pod)) else ()


def _requested_groups(request: BindRequest) -> tuple[str, ...]:
    return request.spec.selectedGPUGroups
