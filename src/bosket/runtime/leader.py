"""LeaderElector: leader election by a Lease, with the rules of client-go, so that replicas in Go and in Python could
share one.

A candidate trusts no other machine's clock: it takes a lease over only after it has *itself* seen no renewal for the
lease's duration. It reads the lease every `look_seconds`, more often than client-go, so that a lease that was released
at an update is taken soon. The leader renews every `retry_seconds`; if it fails to for `renew_seconds` it stops its
work, before any other candidate may consider the lease expired. Both times count from when a write was *sent*: the
answer may be late, and others have seen the write since. A leader that stops in order releases the lease.
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
    """The lease's content at its last change, and the time of that change by our own clock."""

    spec: LeaseSpec
    seen: float


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Duration of the lease, renew deadline and retry period."""

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
        self._renewed = 0.0  # our own monotonic clock, read before the last successful write was sent

    @property
    def leader(self) -> str:
        """The lease's holder as last seen; empty when there is none."""
        return (self._observation.spec.holderIdentity or "") if self._observation else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease, runs `lead` while holding it, and starts again when the lease is lost; returns when
        `lead` returns.

        Cancellation cancels `lead`, waits for it, and releases the lease.
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
                # The lease may have expired or changed hands: only another write shows that.
                _log.warning("took the lease too slowly to lead", extra={"lease": self.name, "identity": self.identity})

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Runs `lead`; True when it returned, False when the lease was lost."""

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
            # `lead` ends before the lease is released: two leaders at once could bind a pod twice.
            await _end(working)
            await _end(renewing)
            await _end(watching)
            await self._release()

    async def _renew_until_taken(self) -> None:
        """Renews the lease; returns when another candidate holds it."""
        pause = self._retry_seconds
        while True:
            await self._clock.sleep(pause)
            if await self._try_to_hold():
                pause = self._retry_seconds
            elif self.leader != self.identity:
                return
            else:
                # After a failure retries come faster: few fit before the deadline, and a short outage must not cost the
                # lease.
                pause = self._retry_seconds / 5

    async def _wait_for_deadline(self) -> None:
        """Returns when the lease was not renewed in time, even if a renewal hangs."""
        while (remaining := self._remaining()) > 0:
            await self._clock.sleep(remaining)

    def _remaining(self) -> float:
        """Seconds for which this process may lead without another renewal."""
        return self._renewed + self._renew_seconds - self._clock.monotonic()

    async def _try_to_hold(self) -> bool:
        """Takes or renews the lease; False when another candidate holds it or it can't be read."""
        try:
            return await self._hold()
        except (Conflict, AlreadyExists) as error:
            _log.debug("another candidate took the lease", extra={"lease": self.name, "error": str(error)})
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
        """Releases the lease if it is ours, so that the next leader needn't wait for its expiry."""
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
            _log.warning("lease not released; it will expire", extra={"lease": self.name, "error": str(error)})

    async def _write(self, lease: Lease, spec: LeaseSpec) -> None:
        """Merge patch with the resourceVersion that was read: a concurrent write makes the server refuse it."""
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
