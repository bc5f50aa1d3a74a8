"""The queue controller as a service: groups and queues in, queue statuses out.

Changes come in bursts, so queues are written a short while after the first change, all levels of the tree together.
Unchanged statuses aren't written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bosket.api.kai import PodGroup, Queue
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment, Service
from bosket.services.queue.account import Accounts
from bosket.services.queue.metrics import QueueMetrics

NAME: Final = "queue-controller"
#: How long changes of a queue are gathered.
_GATHER_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the queue controller; the fields are KAI's flags."""

    #: What the names of metrics begin with.
    metrics_namespace: str = "kai"
    #: Labels of queues that metrics show, and what they are called there.
    queue_label_to_metric_label: Mapping[str, str] = field(default_factory=dict)
    #: What is shown of queues without such a label.
    queue_label_to_default_metric_value: Mapping[str, str] = field(default_factory=dict)
    max_concurrent_reconciles: int = 4


def service(env: Environment, options: Options | None = None) -> Service:
    """The queue controller."""
    return QueueController(env, options or Options())


class QueueController:
    """Keeps the status of queues until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options) -> None:
        self._client, self._clock = env.client, env.clock
        self._accounts = Accounts()
        self._metrics = QueueMetrics(
            env.metrics,
            options.metrics_namespace,
            options.queue_label_to_metric_label,
            options.queue_label_to_default_metric_value,
        )
        self._queues = env.informers.of(Queue)
        self._groups = env.informers.of(PodGroup)
        self._controller: Controller[str] = Controller(
            NAME, self._reconcile, workers=options.max_concurrent_reconciles, clock=env.clock, metrics=env.metrics
        )
        self._queues.subscribe(self._queue_changed)
        self._groups.subscribe(self._group_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._queues.wait_synced()
        await self._groups.wait_synced()
        for queue in self._queues.store.values():
            self._controller.queue.add(queue.metadata.name)
        await self._controller.run()

    def _queue_changed(self, change: Change[Queue]) -> None:
        old, new = change
        known = new or old
        if known is None:
            return
        name = known.metadata.name
        if new is None:
            self._metrics.forget(name)
        else:
            self._metrics.show(new)
        self._soon(self._accounts.put_queue(name, new))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        known = change.new or change.old
        if known is not None:
            self._soon(self._accounts.put_group(known.key, change.new))

    def _soon(self, names: Iterable[str]) -> None:
        for name in names:
            self._controller.queue.add_after(name, _GATHER_SECONDS)

    async def _reconcile(self, name: str) -> None:
        queue = self._accounts.queue(name)
        if queue is None:
            return
        status = self._accounts.status(name, self._clock.now())
        if status == queue.status:
            return
        try:
            written = await self._client.modify(
                queue, msgspec.structs.replace(queue, status=status), subresource="status"
            )
        except NotFound:
            return  # gone meanwhile
        self._queues.store.put(written)
