"""MemoryStore: keeps the scheduler's memory in one ConfigMap per shard, so that a restart forgets nothing.

Nominations, preemption history, refusals and pending evictions (`state.own.memory`) are written before the first
eviction: a process that dies at any moment leaves a record of what it was doing, and the next one continues. Changes
without evictions are debounced for `SAVE_SECONDS`. Unchanged content is not written, and a scheduler that never evicted
writes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from typing import Final

import msgspec

from bosket.api.coordination import Lease
from bosket.api.core import ConfigMap
from bosket.api.keys import MEMORY_SUFFIX
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from bosket.runtime.service import Environment
from bosket.runtime.workqueue import Backoff
from bosket.scheduler.model.decisions import Eviction
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.memory import NO_MEMORY, Memory, UnreadableMemory, decode, encode

_log = logging.getLogger(__name__)

#: The debounce of changes that no eviction waits for.
SAVE_SECONDS: Final = 5.0
#: The longest pause between two attempts to write where the API server refuses.
_LONGEST_REFUSED_SECONDS: Final = 300.0
#: The ConfigMap's keys: the memory itself, and how much of it there is, for people.
MEMORY, SUMMARY = "memory", "summary"
_MAY_PASS: Final = (ServerError, TooManyRequests, TransportError)


def config_map_name(lease_name: str) -> str:
    """Of a shard, after its lease."""
    return f"{lease_name}{MEMORY_SUFFIX}"


class MemoryStore:
    """Stores the memory of a `ClusterState`; one write at a time."""

    def __init__(self, env: Environment, state: ClusterState, lease_name: str) -> None:
        self._client, self._clock, self._state = env.client, env.clock, state
        self._namespace, self._name, self._lease_name = env.namespace, config_map_name(lease_name), lease_name
        self._version = ""  # resourceVersion of the ConfigMap; empty when there is none
        self._stored = NO_MEMORY
        self._changes = self._saved = 0  # changes so far, and how many of them are stored
        self._lock = asyncio.Lock()
        self._restored = asyncio.Event()
        self._backoff = Backoff(base_seconds=0.1, limit_seconds=10.0)
        self._refusal_backoff = Backoff(base_seconds=SAVE_SECONDS, limit_seconds=_LONGEST_REFUSED_SECONDS)
        self._refusals = 0  # of the API server, since a write succeeded
        self._retry_at = 0.0

    def start_anew(self) -> None:
        """Called before `run`: another leader may have written since the last read."""
        self._restored.clear()

    async def restore(self) -> tuple[Eviction, ...]:
        """Reads the memory into the state; returns the evictions that are still to be carried out."""
        async with self._lock:
            unfinished = await self._restore()
        self._restored.set()
        return unfinished

    async def _restore(self) -> tuple[Eviction, ...]:
        failures = 0
        while True:
            try:
                memory = await self._read()
                break
            except _MAY_PASS as error:
                failures += 1
                delay = self._backoff.delay(failures)
                _log.warning("ConfigMap %s can't be read, next attempt in %.1f s: %s", self._label, delay, error)
                await self._clock.sleep(delay)
            except ApiError as error:
                _log.warning("ConfigMap %s can't be read, earlier nominations are unknown: %s", self._label, error)
                memory = NO_MEMORY
                break
        unfinished: tuple[Eviction, ...] = ()
        try:
            unfinished = self._state.restore(memory, self._clock.now())
        except Exception:
            self._state.snapshot(self._clock.now())  # raises where it isn't the memory that is to blame
            _log.exception("ConfigMap %s can't be restored; the scheduler starts with an empty memory", self._label)
        if memory is not NO_MEMORY:
            _log.info("restored memory: %s; %d pods still to evict", memory.summary, len(unfinished))
        self._stored = memory
        return unfinished

    def changed(self) -> None:
        """Marks the memory as possibly changed."""
        self._changes += 1

    async def save(self) -> None:
        """Returns when the present memory is stored; raises errors that may pass. One write serves all concurrent
        callers."""
        wanted = self._changes
        async with self._lock:
            if self._saved < wanted:
                await self._save()

    async def run(self) -> None:
        """Saves changes until cancelled, but not before the memory of the previous leader was read."""
        await self._restored.wait()
        while True:
            await self._clock.sleep(SAVE_SECONDS)
            async with self._lock:
                try:
                    await self._save()
                except KubeError as error:
                    _log.warning("ConfigMap %s can't be written, will try again: %s", self._label, error)

    async def _save(self) -> None:
        changes, memory = self._changes, self._state.memory(self._clock.now())
        if memory != self._stored and self._clock.monotonic() >= self._retry_at:
            try:
                await self._write(memory)
            except _MAY_PASS:
                raise
            except ApiError as error:
                self._refused(error)
            else:
                self._stored, self._refusals = memory, 0
        self._saved = changes

    def _refused(self, error: ApiError) -> None:
        """Lets evictions continue although the write is forbidden: without memory the scheduler still decides as well
        as KAI's, which has none. Retries with back-off, because the right or the namespace may be added."""
        if not self._refusals:
            _log.warning("ConfigMap %s can't be written, a restart will forget nominations: %s", self._label, error)
        self._refusals += 1
        self._retry_at = self._clock.monotonic() + self._refusal_backoff.delay(self._refusals)

    # The ConfigMap

    async def _read(self) -> Memory:
        self._version = ""
        try:
            found = await self._client.get(ConfigMap, self._name, self._namespace)
        except NotFound:
            return NO_MEMORY
        self._version = found.metadata.resourceVersion
        try:
            return decode(base64.b64decode(found.binaryData.get(MEMORY, ""), validate=True))
        except (UnreadableMemory, binascii.Error) as error:
            _log.warning("ConfigMap %s is no memory, the scheduler starts with an empty one: %s", self._label, error)
            return NO_MEMORY

    async def _write(self, memory: Memory) -> None:
        content = ConfigMap(
            metadata=ObjectMeta(name=self._name, namespace=self._namespace),
            data={SUMMARY: memory.summary},
            binaryData={MEMORY: base64.b64encode(encode(memory)).decode()},
        )
        try:
            await self._put(content)
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and not self._version:
                raise  # the namespace is missing
            # Somebody edited or deleted the ConfigMap, or an earlier leader's last write came late. The lease holder
            # wins.
            await self._read()
            await self._put(content)

    async def _put(self, content: ConfigMap) -> None:
        if not self._version:
            metadata = msgspec.structs.replace(content.metadata, ownerReferences=await self._owners())
            written = await self._client.create(msgspec.structs.replace(content, metadata=metadata))
        else:
            patch = {
                "metadata": {"resourceVersion": self._version},
                "data": content.data,
                "binaryData": content.binaryData,
            }
            written = await self._client.patch(ConfigMap, self._name, patch, namespace=self._namespace)
        self._version = written.metadata.resourceVersion

    async def _owners(self) -> tuple[OwnerReference, ...]:
        """The owners of the lease: the operator makes the shard its owner, so the memory is deleted with the shard."""
        try:
            lease = await self._client.get(Lease, self._lease_name, self._namespace)
        except KubeError:
            return ()  # a scheduler without a lease, or one that nobody deployed for a shard
        return tuple(
            OwnerReference(apiVersion=each.apiVersion, kind=each.kind, name=each.name, uid=each.uid)
            for each in lease.metadata.ownerReferences
        )

    @property
    def _label(self) -> str:
        return f"{self._namespace}/{self._name}"
