"""Leader election by a Lease, with the rules of client-go, so that replicas in Go and in Python could share one.

A candidate trusts no other machine's clock: it takes a lease over only when it has *itself* seen no renewal for the
lease's duration. It looks every `look_seconds`, more often than client-go's: a look is only a read, and a lease that is
given back at an update shouldn't lie there. The leader renews every `retry_seconds`; when it has not managed to for
`renew_seconds` it stops its work at once, which is before anyone else may believe the lease to be free. Both count from
when a write was *sent*: its answer may be late, and others have seen the lease since. A leader that ends in order gives
the lease back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.object import ObjectMeta
from bosket.api.time import format_micro_time
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bosket.runtime.clock import Clock
from bosket.runtime.metrics import runtime_metrics

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Observation:
    """What the lease said when it last changed, and when that was by our own clock."""

    spec: LeaseSpec
    seen: float


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """How long a lease is good, how long its holder may go on without renewing it, and how often that is tried."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 5.0


DEFAULT_TIMING: Final = LeaseTiming()


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming = DEFAULT_TIMING,
        look_seconds: float = 1.0,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        if not timing.lease_seconds > timing.renew_seconds > timing.retry_seconds > 0:
            raise ValueError(
                f"lease {namespace}/{name}: need lease_seconds > renew_seconds > retry_seconds > 0, "
                f"got {timing.lease_seconds}, {timing.renew_seconds}, {timing.retry_seconds}"
            )
        if not identity:
            raise ValueError(f"lease {namespace}/{name}: identity must not be empty")
        self.name = name
        self.identity = identity
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._lease_seconds = timing.lease_seconds
        self._renew_seconds = timing.renew_seconds
        self._retry_seconds = timing.retry_seconds
        self._look_seconds = min(look_seconds, timing.retry_seconds)
        self._metrics = runtime_metrics(metrics if metrics is not None else CollectorRegistry())
        self._observation: _Observation | None = None
        self._renewed = 0.0  # by our own clock, before the last write that succeeded was sent

    @property
    def leader(self) -> str:
        """Who holds the lease as far as we have seen; empty when nobody does."""
        return (self._observation.spec.holderIdentity or "") if self._observation else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, lead while it is ours, and begin again when it is lost; returns when `lead` does.

        Cancellation cancels `lead`, waits for it, and gives the lease back.
        """
        self._metrics.leading(self.name, False)
        while True:
            await self._acquire()
            _log.info("became leader", extra={"lease": self.name, "identity": self.identity})
            self._metrics.leading(self.name, True)
            try:
                finished = await self._lead(lead)
            finally:
                self._metrics.leading(self.name, False)
            if finished:
                return
            _log.warning("lost the lease", extra={"lease": self.name, "identity": self.identity, "holder": self.leader})

    async def _acquire(self) -> None:
        while True:
            if not await self._try_to_hold():
                await self._clock.sleep(self._look_seconds)
            elif self._remaining() > 0:
                return
            else:
                # Others may think it free by now, or have it: only another write can tell.
                _log.warning("took the lease too slowly to lead", extra={"lease": self.name, "identity": self.identity})

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Lead until done (true) or until the lease is lost (false)."""

        async def work() -> None:
            await lead()

        working = asyncio.create_task(work(), name=f"lead-{self.name}")
        renewing = asyncio.create_task(self._renew_until_taken(), name=f"renew-{self.name}")
        watching = asyncio.create_task(self._wait_for_deadline(), name=f"deadline-{self.name}")
        try:
            await asyncio.wait((working, renewing, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return False
            await working  # raises what it raised
            return True
        finally:
            # The work ends before the lease is given back, so that a successor never overlaps with it.
            await _end(working)
            await _end(renewing)
            await _end(watching)
            await self._release()

    async def _renew_until_taken(self) -> None:
        """Keep the lease fresh; return when someone else has it."""
        pause = self._retry_seconds
        while True:
            await self._clock.sleep(pause)
            if await self._try_to_hold():
                pause = self._retry_seconds
            elif self.leader != self.identity:
                return
            else:
                # Few attempts fit between a failure and the deadline: a short outage must not cost the lease.
                pause = self._retry_seconds / 5

    async def _wait_for_deadline(self) -> None:
        """Return when the lease has not been renewed in time, also if a renewal hangs."""
        while (remaining := self._remaining()) > 0:
            await self._clock.sleep(remaining)

    def _remaining(self) -> float:
        """How long we may lead unless the lease is renewed."""
        return self._renewed + self._renew_seconds - self._clock.monotonic()

    async def _try_to_hold(self) -> bool:
        """Take or renew the lease; false when another holds it or when it can't be known."""
        try:
            return await self._hold()
        except (Conflict, AlreadyExists) as error:
            _log.debug("another candidate was faster", extra={"lease": self.name, "error": str(error)})
        except KubeError as error:
            _log.warning(
                "lease not reached", extra={"lease": self.name, "identity": self.identity, "error": str(error)}
            )
        return False

    async def _hold(self) -> bool:
        now = self._clock.now()
        try:
            lease = await self._client.get(Lease, self.name, self._namespace)
        except NotFound:
            fresh = self._record(acquired=now, renewed=now, transitions=0)
            sent = self._clock.monotonic()
            created = await self._client.create(
                Lease(metadata=ObjectMeta(name=self.name, namespace=self._namespace), spec=fresh), self._namespace
            )
            self._observe(created.spec)
            self._renewed = sent
            return True
        self._observe(lease.spec)
        spec = lease.spec
        if spec.holderIdentity == self.identity:
            wanted = self._record(acquired=None, renewed=now, transitions=spec.leaseTransitions or 0)
            wanted = msgspec.structs.replace(wanted, acquireTime=spec.acquireTime)
        elif spec.holderIdentity and not self._expired(spec):
            return False
        else:
            wanted = self._record(acquired=now, renewed=now, transitions=(spec.leaseTransitions or 0) + 1)
        sent = self._clock.monotonic()
        await self._write(lease, wanted)
        self._renewed = sent
        return True

    async def _release(self) -> None:
        """Give the lease back if it is ours, so that the next leader need not wait for it to expire."""
        if self.leader != self.identity:
            return
        now = self._clock.now()
        try:
            async with asyncio.timeout(self._retry_seconds):
                lease = await self._client.get(Lease, self.name, self._namespace)
                self._observe(lease.spec)
                if self.leader != self.identity:
                    return
                spec = lease.spec
                released = self._record(acquired=now, renewed=now, transitions=spec.leaseTransitions or 0)
                await self._write(lease, msgspec.structs.replace(released, holderIdentity="", leaseDurationSeconds=1))
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not given back, it will expire", extra={"lease": self.name, "error": str(error)})

    async def _write(self, lease: Lease, spec: LeaseSpec) -> None:
        """Merge patch with the version that we have read: the server refuses it when someone wrote in between."""
        fields = msgspec.to_builtins(spec)
        fields["holderIdentity"] = spec.holderIdentity  # also when empty
        patch = {"metadata": {"resourceVersion": lease.metadata.resourceVersion}, "spec": fields}
        written = await self._client.patch(Lease, self.name, patch, namespace=self._namespace)
        self._observe(written.spec)

    def _record(self, *, acquired: float | None, renewed: float, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holderIdentity=self.identity,
            leaseDurationSeconds=self._lease_seconds,
            acquireTime=None if acquired is None else format_micro_time(acquired),
            renewTime=format_micro_time(renewed),
            leaseTransitions=transitions,
        )

    def _observe(self, spec: LeaseSpec) -> None:
        if self._observation is None or self._observation.spec != spec:
            self._observation = _Observation(spec, self._clock.monotonic())

    def _expired(self, spec: LeaseSpec) -> bool:
        assert self._observation is not None
        duration = self._lease_seconds if spec.leaseDurationSeconds is None else spec.leaseDurationSeconds
        return self._clock.monotonic() >= self._observation.seen + duration


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel and wait; what it raised while ending is logged, for there is nobody left to handle it."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("failed while stopping", extra={"task": task.get_name(), "error": str(error)}, exc_info=error)
