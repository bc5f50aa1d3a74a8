"""Reservations of shared GPUs: finds or creates the pod that holds a group's GPU, and waits for its device.

Code that acts on a group holds its lock (`hold`), so within this process one attempt at a time creates, awaits or
deletes a reservation. Between processes the API server decides: names are fixed, and deletions name a uid.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from bosket.api.core import Pod
from bosket.api.keys import GPU_GROUP_LABEL
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.kube.informer import Change, Informer
from bosket.runtime.keyed_lock import KeyedLock
from bosket.runtime.service import Environment
from bosket.services.binder.options import Options
from bosket.services.binder.plugin import Refused
from bosket.services.binder.reservation_pod import reservation_name, reservation_pod, reserved_device, why_ended

_log = logging.getLogger(__name__)

#: Pods that wait for a node, by namespace.
_UNSCHEDULED_INDEX: Final = "binder-unscheduled"


class NotReserved(Refused):
    """The group got no GPU; the message says why."""


class Reservations:
    """The reservation pods, as one binder sees and creates them."""

    def __init__(self, env: Environment, options: Options) -> None:
        self._client = env.client
        self._options = options.reservation
        self._scale_namespace = options.scale_adjust_namespace
        self._pods: Informer[Pod] = env.informers.of(Pod)
        self._locks: KeyedLock[str] = KeyedLock()
        self._waiting: defaultdict[ObjectKey, list[asyncio.Event]] = defaultdict(list)
        self._pods.add_index(_UNSCHEDULED_INDEX, _unscheduled)
        self._pods.subscribe(self._notice)

    def hold(self, group: str) -> AbstractAsyncContextManager[None]:
        """Locks the group's reservations within this process."""
        return self._locks.hold(group)

    async def device(self, source: Pod, node: str, group: str) -> str:
        """The UUID of the group's GPU on the node; the caller holds the lock. Raises `NotReserved`."""
        reservation = await self._read(reservation_name(node, group)) or await self._find(node, group)
        if reservation is not None and has_ended(reservation):
            await self.delete(reservation)
            reservation = None
        if reservation is None:
            reservation = await self._create(source, node, group)
        if reservation.metadata.deletionTimestamp is not None:
            raise NotReserved(f"reservation pod {reservation.key} of GPU group {group} is being deleted")
        self._pods.store.put(reservation)
        return reserved_device(reservation) or await self._wait(reservation, node)

    async def delete(self, reservation: Pod) -> None:
        """Deletes the reservation pod at once, which frees its GPU."""
        meta = reservation.metadata
        # NotFound, Conflict: the pod is gone or was replaced; either way this one holds nothing.
        with suppress(NotFound, Conflict):
            await self._client.delete(Pod, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid)
        self._pods.store.discard(reservation.key, meta.uid)

    async def _create(self, source: Pod, node: str, group: str) -> Pod:
        scaling = self._pods.store.by_index(_UNSCHEDULED_INDEX, self._scale_namespace)
        if scaling:
            raise NotReserved(
                "cluster is scaling up, could not create reservation pod: "
                f"{min(pod.key for pod in scaling)} waits for a node"
            )
        wanted = reservation_pod(source, node, group, self._options)
        try:
            created = await self._client.create(wanted)
        except AlreadyExists:
            found = await self._read(wanted.metadata.name)
            if found is None:
                raise NotReserved(f"reservation pod {wanted.key} of GPU group {group} came and went") from None
            return found
        _log.info("reservation pod created", extra={"pod": str(created.key), "node": node, "group": group})
        return created

    async def _wait(self, reservation: Pod, node: str) -> str:
        """Until the pod says which device it has."""
        key, seconds = reservation.key, self._options.allocation_timeout_seconds
        changed = asyncio.Event()
        self._waiting[key].append(changed)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    changed.clear()
                    device = await self._look(reservation, self._pods.store.get(key), node)
                    if device:
                        return device
                    await changed.wait()
        except TimeoutError:
            # Our watch may be behind: the API server's answer counts.
            device = await self._look(reservation, await self._read(key.name), node)
            if device:
                return device
            await self.delete(reservation)
            raise NotReserved(
                f"failed waiting for GPU reservation pod to allocate: {key} on node {node} named no device "
                f"within {seconds:g} s"
            ) from None
        finally:
            self._waiting[key].remove(changed)
            if not self._waiting[key]:
                del self._waiting[key]

    async def _look(self, reservation: Pod, now: Pod | None, node: str) -> str:
        """The device, as far as it is known; raises `NotReserved` when it never will be."""
        if now is None or now.metadata.uid != reservation.metadata.uid:
            raise NotReserved(f"reservation pod {reservation.key} on node {node} was deleted before it named a device")
        if has_ended(now):
            await self.delete(now)
            raise NotReserved(f"reservation pod {now.key} could not run on node {node}: {why_ended(now)}")
        return reserved_device(now)

    async def _find(self, node: str, group: str) -> Pod | None:
        """A reservation of the group under another name: those of older versions of KAI end in something random."""
        found = await self._client.list(Pod, self._options.namespace, labels=f"{GPU_GROUP_LABEL}={group}")
        here = [pod for pod in found.items if pod.spec.nodeName == node and not has_ended(pod)]
        return min(here, key=lambda pod: pod.metadata.name, default=None)

    async def _read(self, name: str) -> Pod | None:
        try:
            return await self._client.get(Pod, name, self._options.namespace)
        except NotFound:
            return None

    def _notice(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        if pod is not None:
            for event in self._waiting.get(pod.key, ()):
                event.set()


def _unscheduled(pod: Pod) -> tuple[str, ...]:
    # A terminating pod no longer waits for a node.
    if pod.spec.nodeName or pod.metadata.deletionTimestamp is not None or has_ended(pod):
        return ()
    waits = any(each.type == "PodScheduled" and each.status != "True" for each in pod.status.conditions)
    return (pod.metadata.namespace,) if waits else ()
