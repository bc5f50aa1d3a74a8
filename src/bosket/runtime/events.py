"""Events: what happened to an object, as `kubectl describe` shows it.

Reconcilers and the scheduler call `EventRecorder.event`, which only notes the event in memory and never waits or fails.
A background writer creates core/v1 Events; a repeated event (same object, type, reason and message) only raises `count`
and `lastTimestamp`. Events per object are rate-limited, and memory is bounded: under overload events are dropped first.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry

from bosket.api.core import Event, EventSource, ObjectReference
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.table import resource_of
from bosket.api.time import format_time
from bosket.kube.client import Client
from bosket.kube.errors import (
    AlreadyExists,
    ApiError,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    is_namespace_going,
)
from bosket.runtime.clock import Clock
from bosket.runtime.metrics import runtime_metrics
from bosket.runtime.workqueue import Backoff, WorkQueue

EventType = Literal["Normal", "Warning"]

_log = logging.getLogger(__name__)

_MAX_MESSAGE: Final = 1024
_MAX_NAME: Final = 236  # of 253, so that a dot and sixteen digits fit behind it
_MAX_ATTEMPTS: Final = 12
_WRITERS: Final = 4
_WRITES_IN_A_ROW: Final = 8


class _Key(NamedTuple):
    """Events with the same key are one event that happened several times."""

    component: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str

    @property
    def regarding(self) -> tuple[str, str, str, str]:
        return self[1:5]


@dataclass(slots=True)
class _Entry:
    """One event as it should be in the cluster, and how much of it is there."""

    regarding: ObjectReference
    first: float
    last: float
    count: int = 0
    annotations: dict[str, str] = field(default_factory=dict)
    written_count: int = 0
    name: str = ""
    exists: bool = False
    may_exist: bool = False
    #: Waits for the writer. One that is neither queued nor saved was repeated more often than its object may say.
    queued: bool = False

    @property
    def saved(self) -> bool:
        return self.written_count == self.count


@dataclass(slots=True)
class _Bucket:
    """Token bucket of one object."""

    tokens: float
    refilled: float


class EventRecorder:
    """Notes events and writes them in the background; `component` is their source."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str,
        *,
        instance: str = "",
        burst: int = 25,
        refill_seconds: float = 300.0,
        capacity: int = 4096,
        flush_seconds: float = 5.0,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._instance = instance
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._capacity = capacity
        self._flush_seconds = flush_seconds
        self._metrics = runtime_metrics(metrics if metrics is not None else CollectorRegistry())
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str, str], _Bucket] = OrderedDict()
        self._queue: WorkQueue[_Key] = WorkQueue(clock=clock, backoff=Backoff(base_seconds=0.5, limit_seconds=10.0))
        self._last_suffix = 0

    def for_component(self, component: str) -> EventRecorder:
        """A recorder with another source; memory and writer are shared."""
        other = copy.copy(self)
        other._component = component
        return other

    def event(
        self,
        regarding: KubeObject | ObjectReference,
        type: EventType,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Notes that something happened to `regarding`. Returns at once; failures are logged."""
        try:
            self._note(_reference(regarding), type, reason, message[:_MAX_MESSAGE], annotations or {})
        except Exception:
            name = regarding.name if isinstance(regarding, ObjectReference) else str(regarding.key)
            _log.exception("event not recorded", extra={"reason": reason, "object": name})

    async def run(self) -> None:
        """Writes noted events until cancelled; then flushes the rest for at most `flush_seconds`."""
        self._queue.resume()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(_WRITERS):
                    group.create_task(self._write_forever(), name=f"events-{number}")
        finally:
            await self._flush()
            self._queue.suspend()

    async def _write_forever(self) -> None:
        for done in itertools.count(1):
            key = await self._queue.get()
            try:
                await self._write(key)
            finally:
                self._queue.done(key)
            if done % _WRITES_IN_A_ROW == 0:
                await asyncio.sleep(0)  # yields to the event loop even if the server is in this process and never waits

    def _note(
        self, regarding: ObjectReference, type: str, reason: str, message: str, annotations: Mapping[str, str]
    ) -> None:
        key = _Key(
            self._component, regarding.kind, regarding.namespace, regarding.name, regarding.uid, type, reason, message
        )
        now = self._clock.now()
        entry = self._entries.get(key)
        if entry is None:
            if not self._make_room() or not self._take_token(key):
                self._metrics.event("dropped")
                return
            entry = self._entries[key] = _Entry(regarding, first=now, last=now)
            entry.queued = True
        else:
            self._entries.move_to_end(key)
            # One that waits to be written anyway costs nothing more; an event that is held back is counted and written
            # later.
            entry.queued = entry.queued or self._take_token(key)
        entry.count += 1
        entry.last = now
        entry.annotations.update(annotations)
        if entry.queued:
            self._queue.add(key)

    def _make_room(self) -> bool:
        """Drops the least recently repeated events; False when these still wait to be written."""
        while len(self._entries) >= self._capacity:
            oldest = next(iter(self._entries))
            if self._entries[oldest].queued:
                return False
            self._drop(oldest)
        return True

    def _take_token(self, key: _Key) -> bool:
        now = self._clock.monotonic()
        bucket = self._buckets.get(key.regarding)
        if bucket is None:
            while len(self._buckets) >= self._capacity:
                self._buckets.popitem(last=False)
            bucket = self._buckets[key.regarding] = _Bucket(float(self._burst), now)
        self._buckets.move_to_end(key.regarding)
        bucket.tokens = min(float(self._burst), bucket.tokens + (now - bucket.refilled) / self._refill_seconds)
        bucket.refilled = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    async def _write(self, key: _Key) -> None:
        """Writes noted events; errors that may pass are retried, other errors drop the event."""
        entry = self._entries.get(key)
        if entry is None or entry.saved:
            return
        count = entry.count  # may grow while we write
        try:
            if entry.exists:
                await self._raise_count(key, entry, count)
            else:
                await self._create(key, entry, count)
        except KubeError as error:
            if _may_pass(error) and self._queue.failures(key) < _MAX_ATTEMPTS:
                self._queue.add_rate_limited(key)
                return
            self._drop(key)
            self._metrics.event("failed")
            _log.log(
                logging.DEBUG if is_namespace_going(error) else logging.WARNING,
                "event not written",
                extra={"object": f"{key.kind} {key.namespace}/{key.name}", "reason": key.reason, "error": str(error)},
            )
            return
        self._queue.forget(key)
        entry.written_count = count
        entry.queued = not entry.saved

    async def _create(self, key: _Key, entry: _Entry, count: int) -> None:
        namespace = key.namespace or "default"
        while True:
            entry.name = entry.name or f"{key.name[:_MAX_NAME]}.{self._next_suffix():016x}"
            event = Event(
                metadata=ObjectMeta(name=entry.name, namespace=namespace, annotations=dict(entry.annotations)),
                involvedObject=entry.regarding,
                type=key.type,
                reason=key.reason,
                message=key.message,
                count=count,
                firstTimestamp=format_time(entry.first),
                lastTimestamp=format_time(entry.last),
                source=EventSource(component=key.component),
                reportingComponent=key.component,
                reportingInstance=self._instance or key.component,
            )
            try:
                await self._client.create(event, namespace)
            except (TransportError, asyncio.CancelledError):
                entry.may_exist = True  # the earlier attempt may have succeeded with a lost answer
                raise
            except AlreadyExists:
                if entry.may_exist:
                    entry.exists = True
                    await self._raise_count(key, entry, count)
                    return
                entry.name = ""  # another recorder named one at the same instant
                continue
            entry.exists = True
            self._metrics.event("created")
            return

    async def _raise_count(self, key: _Key, entry: _Entry, count: int) -> None:
        patch: dict[str, object] = {"count": count, "lastTimestamp": format_time(entry.last)}
        if entry.annotations:
            patch["metadata"] = {"annotations": dict(entry.annotations)}
        try:
            await self._client.patch(Event, entry.name, patch, namespace=key.namespace or "default")
        except NotFound:  # events live for an hour
            entry.name, entry.exists, entry.may_exist = "", False, False
            await self._create(key, entry, count)
        else:
            self._metrics.event("aggregated")

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(self._flush_seconds):
                for key in [key for key, entry in self._entries.items() if not entry.saved]:
                    await self._write(key)
        except TimeoutError:
            left = sum(not entry.saved for entry in self._entries.values())
            _log.warning("events lost, the server was too slow while stopping", extra={"events": left})

    def _drop(self, key: _Key) -> None:
        self._entries.pop(key, None)
        self._queue.forget(key)

    def _next_suffix(self) -> int:
        """The time, as `kubectl get events` users know it, but never the same twice."""
        self._last_suffix = max(self._last_suffix + 1, int(self._clock.now() * 1e9))
        return self._last_suffix


def _reference(regarding: KubeObject | ObjectReference) -> ObjectReference:
    if isinstance(regarding, ObjectReference):
        return regarding
    resource = resource_of(type(regarding))
    return ObjectReference(
        apiVersion=regarding.apiVersion or resource.api_version,
        kind=regarding.kind or resource.kind,
        namespace=regarding.metadata.namespace,
        name=regarding.metadata.name,
        uid=regarding.metadata.uid,
        resourceVersion=regarding.metadata.resourceVersion,
    )


def _may_pass(error: KubeError) -> bool:
    return not isinstance(error, ApiError) or isinstance(error, ServerError | TooManyRequests)
