"""Controller: a reconciler: informers report changed keys, workers reconcile them.

A reconcile function is level-triggered: it receives a key, not a change, reads the present state and writes what is
missing. It may be called at any time and any number of times. It returns None, or the seconds after which to reconcile
again. An exception is logged, counted, and followed by a retry with back-off.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry

from bosket.kube.errors import Conflict, KubeError, is_namespace_going
from bosket.kube.informer import Change, Informer
from bosket.runtime.clock import Clock
from bosket.runtime.concurrent import being_cancelled
from bosket.runtime.metrics import runtime_metrics
from bosket.runtime.workqueue import Backoff, QueueClosed, WorkQueue

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Reconcile = Callable[[K], Awaitable[float | None]]

_log = logging.getLogger(__name__)

#: Keys that a worker handles between two yields to the event loop, if it never had to wait.
_KEYS_IN_A_ROW: Final = 4


class ReconcileError(Exception):
    """Raised by a reconcile function whose failure needs no traceback; followed by a retry like any exception."""


class Controller(Generic[K]):
    """Workers that reconcile the keys of one queue; `run` until cancelled."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        clock: Clock,
        metrics: CollectorRegistry | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        collectors = runtime_metrics(metrics if metrics is not None else CollectorRegistry())
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock=clock, backoff=backoff, metrics=collectors.queue(name))
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._metrics = collectors.controller(name, workers)
        self._informers: list[Informer[Any]] = []

    def watch(self, informer: Informer[T], keys: Callable[[T], Iterable[K]]) -> None:
        """Enqueues `keys(object)`, for the old and the new version, whenever an object of the informer changes."""

        def enqueue(change: Change[T]) -> None:
            for version in change:
                if version is not None:
                    for key in keys(version):
                        self.queue.add(key)

        informer.subscribe(enqueue)
        if informer not in self._informers:
            self._informers.append(informer)

    async def run(self) -> None:
        """Starts working once the watched informers are synced; until cancelled, or until the queue is closed."""
        for informer in self._informers:
            await informer.wait_synced()
        self.queue.resume()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.suspend()

    async def _work(self) -> None:
        for done in itertools.count(1):
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._handle(key)
            finally:
                self.queue.done(key)
            if done % _KEYS_IN_A_ROW == 0:
                # A reconciliation may never await, when nothing is to be done or the server is in this
                # process: a thousand of them in a row would block the event loop.
                await asyncio.sleep(0)

    async def _handle(self, key: K) -> None:
        started = self._clock.monotonic()
        self._metrics.started()
        result = "error"
        try:
            look_again_seconds = await self._reconcile(key)
        except Conflict as conflict:
            # A conflict is normal with several writers: the store was behind. The next attempt reads a newer version.
            _log.debug(
                "conflict, will try again", extra={"controller": self.name, "key": str(key), "error": str(conflict)}
            )
            self.queue.add_rate_limited(key)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                # `run` may be called again when the process leads again: the key stays in the queue.
                self.queue.add(key)
                result = "cancelled"
                raise
            if is_namespace_going(error):
                # The namespace is being deleted, and the object with it: nothing to do, and no failure.
                _log.debug(
                    "the namespace is going", extra={"controller": self.name, "key": str(key), "error": str(error)}
                )
                self.queue.add_rate_limited(key)
            else:
                self._failed(key, error)
        else:
            self.queue.forget(key)
            if look_again_seconds is None:
                result = "success"
            else:
                result = "requeue_after"
                self.queue.add_after(key, look_again_seconds)
        finally:
            self._metrics.finished(result, self._clock.monotonic() - started)

    def _failed(self, key: K, error: BaseException) -> None:
        self.queue.add_rate_limited(key)
        _log.error(
            "reconcile failed",
            extra={
                "controller": self.name,
                "key": str(key),
                "error": str(error) or repr(error),
                "attempt": self.queue.failures(key),
            },
            # An API error is a complete sentence; for any other exception the traceback matters.
            exc_info=None if isinstance(error, KubeError | ReconcileError) else error,
        )
