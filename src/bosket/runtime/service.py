"""Services of one process: their environment, supervision and shutdown.

A service has a `name` and a `run()` that continues until cancelled. `run_services` starts the shared informers and
event recorder, runs each service (behind a lease where several processes run the same one), restarts failed ones, and
stops in order: services first, so that their last events are written, then the rest.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import CollectorRegistry

from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.clock import Clock
from bosket.runtime.concurrent import being_cancelled
from bosket.runtime.events import EventRecorder
from bosket.runtime.health import Address, serve_health
from bosket.runtime.leader import DEFAULT_TIMING, LeaderElector, LeaseTiming
from bosket.runtime.local_server import LocalPages, serve_local
from bosket.runtime.metrics import runtime_metrics
from bosket.runtime.workqueue import Backoff

_log = logging.getLogger(__name__)

#: A service that ran this long before it failed starts with the shortest back-off again.
_HEALTHY_SECONDS: Final = 60.0
_RESTART: Final = Backoff(base_seconds=0.5, limit_seconds=30.0)


@dataclass(frozen=True, slots=True)
class Environment:
    """What every service receives: client, informers, clock, events, metrics, and the process around them."""

    client: Client
    informers: Informers
    clock: Clock
    events: EventRecorder
    metrics: CollectorRegistry
    #: the namespace of the services' own objects: leases, reservations
    namespace: str = "kai-scheduler"
    #: the identity of this process among its replicas
    identity: str = "bosket"
    #: pages for callers on the same machine
    local_pages: LocalPages = field(default_factory=LocalPages)
    #: readiness checks by name; each service adds its own
    readiness: dict[str, Callable[[], bool]] = field(default_factory=dict)


class Service(Protocol):
    """A part of the system that runs until cancelled.

    With `in_every_replica = True` it needs no lease. A lease is named after the service unless it has a `lease_name`.
    """

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


async def run_services(
    environment: Environment,
    services: Sequence[Service],
    *,
    leader_election: bool,
    lease_timing: LeaseTiming = DEFAULT_TIMING,
    health: Sequence[Address] = (),
    local_port: int | None = None,
    stop_seconds: float = 10.0,
) -> None:
    """Run the services until cancelled, or until all of them have ended by themselves.

    With `leader_election` each service runs only while this process holds its lease, unless it is one for every
    replica; `lease_timing` holds for all of them. On cancellation the services get `stop_seconds` to end; what they
    left of events is then written within the same time. `health` is where to serve metrics and probes, each place both;
    `local_port` where on this machine to serve the services' local pages, if they have any. Should that port be taken,
    they go without: their work needs none.
    """
    async with AsyncExitStack() as stack:
        if local_port is not None and environment.local_pages.paths:
            try:
                await stack.enter_async_context(serve_local(environment.local_pages, local_port))
            except OSError as error:
                paths = ", ".join(environment.local_pages.paths)
                _log.warning("port %d can't be had, %s is not served: %s", local_port, paths, error.strerror)
        checks = {"informers": lambda: environment.informers.synced, **environment.readiness}
        for address in health:
            await stack.enter_async_context(serve_health(environment.metrics, checks, address))
        election = lease_timing if leader_election else None
        await _run_all(environment, services, election=election, stop_seconds=stop_seconds)


async def _run_all(
    environment: Environment, services: Sequence[Service], *, election: LeaseTiming | None, stop_seconds: float
) -> None:
    informers = asyncio.create_task(
        _keep_running("informers", environment.informers.run, environment), name="informers"
    )
    events = asyncio.create_task(_keep_running("events", environment.events.run, environment), name="events")
    running = [
        asyncio.create_task(_run_service(environment, service, election=election), name=service.name)
        for service in services
    ]
    try:
        if running:
            # Not `gather`: when cancelled it would wait for ever for a child that ignores cancellation.
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()
    finally:
        await _stop(running, stop_seconds)
        await _stop([events], stop_seconds)
        await _stop([informers], stop_seconds)


async def _run_service(environment: Environment, service: Service, *, election: LeaseTiming | None) -> None:
    async def lead() -> None:
        await _keep_running(service.name, service.run, environment)

    if election is None or getattr(service, "in_every_replica", False):
        await lead()
        return
    elector = LeaderElector(
        environment.client,
        clock=environment.clock,
        namespace=environment.namespace,
        name=getattr(service, "lease_name", service.name),
        identity=environment.identity,
        timing=election,
        metrics=environment.metrics,
    )
    await elector.run(lead)


async def _keep_running(name: str, run: Callable[[], Awaitable[None]], environment: Environment) -> None:
    """Run until it returns; after a failure, log it and start again."""
    clock = environment.clock
    failures = 0
    while True:
        started = clock.monotonic()
        try:
            await run()
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            failures = 1 if clock.monotonic() - started > _HEALTHY_SECONDS else failures + 1
            delay = _RESTART.delay(failures)
            runtime_metrics(environment.metrics).service_restarted(name)
            _log.exception(
                "service failed, will start again",
                extra={"service": name, "error": repr(error), "seconds": round(delay, 3)},
            )
            await clock.sleep(delay)
        else:
            return


async def _stop(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    ended, late = await asyncio.wait(tasks, timeout=seconds)
    for task in ended:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("failed while stopping", extra={"service": task.get_name()}, exc_info=error)
    for task in late:
        _log.warning("did not stop in time", extra={"service": task.get_name(), "seconds": seconds})


@contextmanager
def stop_on_signals(signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> Iterator[None]:
    """The first signal cancels what the block awaits and leaves it without an error; a second one ends the process.

    For the main task of a process: `with stop_on_signals(): await run_services(...)`.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        _log.info("stopping", extra={"signal": number.name})
        for each in signals:
            loop.remove_signal_handler(each)
            # The kernel ends the process, even if the loop is stuck in a computation.
            signal.signal(each, signal.SIG_DFL)
        task.cancel()

    for each in signals:
        loop.add_signal_handler(each, stop, each)
    try:
        yield
    except asyncio.CancelledError:
        if not received or task.uncancel() > 0:
            raise
    finally:
        if not received:
            for each in signals:
                loop.remove_signal_handler(each)
