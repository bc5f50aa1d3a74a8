"""Binder: a reconciler on BindRequests.

The request's status is all that is remembered between attempts, so the binder may die at any moment and another one
continues. One pod is handled by one worker at a time, and the API server itself refuses a second bind.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.keyed_lock import KeyedLock
from bosket.runtime.service import Environment, Service
from bosket.services.binder.bind import BindExecutor
from bosket.services.binder.charge_keeper import ChargeKeeper
from bosket.services.binder.options import Options
from bosket.services.binder.plugin import BindPlugin
from bosket.services.binder.plugin_table import make_plugins
from bosket.services.binder.report import Reporter
from bosket.services.binder.verdict import PutOff, attempts_left, is_done, pause_seconds


class NodeSlots:
    """How many binds to one node may be under way at once; with a limit of 0 there are as many as anybody wants.

    A request that finds its node busy gives its worker back, and comes again when a slot is free: a slow node holds up
    nobody else.
    """

    def __init__(self, limit: int, come_again: Callable[[ObjectKey], None]) -> None:
        self._limit = limit
        self._come_again = come_again
        self._taken: Counter[str] = Counter()
        self._turned_away: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)

    def take(self, node: str, request: ObjectKey) -> bool:
        """Whether there is a slot for the request; if not, it is called when there is."""
        if self._limit and self._taken[node] >= self._limit:
            self._turned_away[node][request] = None
            return False
        self._taken[node] += 1
        return True

    def give_back(self, node: str) -> None:
        """A bind is over; the one that was turned away first comes again."""
        self._taken[node] -= 1
        if not self._taken[node]:
            del self._taken[node]
        waiting = self._turned_away.get(node)
        if waiting:
            first = next(iter(waiting))
            del waiting[first]
            self._come_again(first)
        if not waiting:
            self._turned_away.pop(node, None)


NAME = "binder"


def service(env: Environment, options: Options | None = None, plugins: Sequence[BindPlugin] = ()) -> Service:
    """The binder, with `plugins` beside its own."""
    return Binder(env, options or Options(), plugins)


class Binder:
    """Carries out BindRequests until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options, plugins: Sequence[BindPlugin]) -> None:
        self._clock = env.clock
        self._options = options
        self._requests = env.informers.of(BindRequest)
        self._pods = env.informers.of(Pod)
        self._nodes = env.informers.of(Node)
        self._plugins = (*make_plugins(env, options), *plugins)
        self._executor = BindExecutor(env.client, self._requests, self._pods, self._nodes, self._plugins)
        self._charges = ChargeKeeper(env, options)
        self._reporter = Reporter(env.client, env.clock, env.events.for_component(NAME))
        self._pods_in_hand: KeyedLock[ObjectKey] = KeyedLock()
        #: by request: when the next attempt is due; after a restart the pause starts again
        self._due: dict[ObjectKey, float] = {}
        self._controller: Controller[ObjectKey] = Controller(
            NAME,
            self._reconcile,
            workers=options.max_concurrent_reconciles,
            clock=env.clock,
            metrics=env.metrics,
            backoff=options.backoff(),
        )
        self._requests.subscribe(self._request_changed)
        for plugin in self._plugins:
            plugin.attend(self._controller.queue.add)
        self._slots = NodeSlots(options.max_concurrent_binds_per_node, self._controller.queue.add)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        for informer in (self._requests, self._pods, self._nodes):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            for plugin in self._plugins:
                group.create_task(plugin.run(), name=plugin.name)
            group.create_task(self._charges.run(), name="charges")
            group.create_task(self._controller.run(), name=NAME)

    def _request_changed(self, change: Change[BindRequest]) -> None:
        known = change.new or change.old
        if known is None:
            return
        if change.new is None or is_done(change.new):
            self._due.pop(known.key, None)
        else:
            self._controller.queue.add(known.key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        request = self._requests.store.get(key)
        if request is None or is_done(request) or not attempts_left(request):
            self._due.pop(key, None)
            return None
        pause = self._pause(request)
        if pause > 0:
            return pause
        node = request.spec.selectedNode
        if not self._slots.take(node, key):
            return None  # enqueued again when a bind to the node is over
        try:
            async with self._pods_in_hand.hold(ObjectKey(key.namespace, request.spec.podName)):
                outcome = await self._executor.attempt(request)
                if isinstance(outcome, PutOff):
                    return outcome.seconds
                written = await self._reporter.report(request, outcome)
        finally:
            self._slots.give_back(node)
        self._due.pop(key, None)
        if written is None:
            return None
        self._requests.store.put(written)
        return self._pause(written) if not is_done(written) and attempts_left(written) else None

    def _pause(self, request: BindRequest) -> float:
        """Seconds until the next attempt."""
        if request.status.failedAttempts == 0:
            return 0.0
        now = self._clock.monotonic()
        pause = pause_seconds(request, self._options.rate_limiter_max_delay_seconds)
        return self._due.setdefault(request.key, now + pause) - now
