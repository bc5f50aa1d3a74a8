"""What the reconcilers of PodCliqueSets, scaling groups and PodCliques have in common: finalizer, errors, status.

A subclass says which events enqueue an object, what its children should be (`_sync`) and what its status should say
(`_with_status`). This class calls both, one object at a time, and writes the status when it is worth a write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from msgspec.structs import replace

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.object import ObjectKey
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.problem import OperatorError, last_errors
from bosket.grove.render.template import is_terminating
from bosket.grove.status.gathering import sooner
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.kube.informer import Informer
from bosket.runtime.controller import Controller
from bosket.runtime.debounce import Debounce
from bosket.runtime.service import Environment

T = TypeVar("T", PodCliqueSet, PodCliqueScalingGroup, PodClique)


@dataclass(frozen=True, slots=True)
class Synced(Generic[T]):
    """The outcome of one pass over the children of an object."""

    #: Whether all children are what the spec asks for; only then does the status say that the spec was observed.
    is_done: bool = False
    #: Seconds after which to reconcile again though no event may come; None where an event will.
    requeue_seconds: float | None = None
    #: The object with a status that isn't written yet; None where the stored status is complete.
    unwritten: T | None = None


class Reconciler(ABC, Generic[T]):
    """Reconciles the objects of one kind; a subclass for each kind."""

    #: Of the controller: in metrics, logs and as the component of events.
    name: ClassVar[str]
    finalizer: ClassVar[str]
    #: Grove's code for a refusal by the API server that has no code of its own.
    error_code: ClassVar[str]

    def __init__(self, env: Environment, cluster: Cluster, informer: Informer[T], *, workers: int) -> None:
        self._cluster = cluster
        self._clock = env.clock
        self._events = env.events.for_component(self.name)
        self._informer: Informer[T] = informer
        self._debounce: Debounce[ObjectKey] = Debounce(env.clock)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=workers, clock=env.clock, metrics=env.metrics
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    # --- what a subclass says

    @abstractmethod
    def _owner_of(self, obj: T) -> PodCliqueSet | None:
        """The set that `obj` is part of; None where there is nothing to do yet, and nothing to report."""

    @abstractmethod
    async def _sync(self, owner: PodCliqueSet, obj: T) -> Synced[T]:
        """Bring the children in line with the spec; raises `OperatorError` or `ApiError` where a part of it fails."""

    @abstractmethod
    def _with_status(self, owner: PodCliqueSet, obj: T, now: float) -> T:
        """`obj` with the status that is true now."""

    @abstractmethod
    def _patience_seconds(self, before: T, after: T) -> float:
        """How long the change of the status from `before` to `after` may wait for further changes."""

    async def _release(self, obj: T) -> None:
        """Removes the finalizer of an object that is being deleted."""
        await self._cluster.drop_finalizer(obj, self.finalizer)

    def _status_changes(self, before: T, after: T) -> None:
        """Called before a status is written, for events about what it says."""

    # --- the reconciliation

    async def _reconcile(self, key: ObjectKey) -> float | None:
        obj = self._informer.store.get(key)
        if obj is not None and not is_terminating(obj):
            return await self._reconcile_live(obj)
        self._debounce.flushed(key)
        if obj is not None:
            await self._release(obj)
        return None

    async def _reconcile_live(self, obj: T) -> float | None:
        """Reconcile an object that isn't being deleted; gives the seconds after which to do so again."""
        owner = self._owner_of(obj)
        if owner is None:
            return None
        synced: Synced[T] = Synced()
        problem: OperatorError | None = None
        try:
            obj = await self._cluster.add_finalizer(obj, self.finalizer)
            synced = await self._sync(owner, obj)
        except OperatorError as error:
            problem = error
        except NotFound:
            return None  # the object is gone, or its namespace
        except Conflict:
            raise
        except ApiError as error:
            problem = OperatorError(self.error_code, error.message)
        wait = await self._write_status(owner, obj, synced, problem)
        if problem is not None:
            raise problem
        return sooner(synced.requeue_seconds, wait)

    async def _write_status(
        self, owner: PodCliqueSet, obj: T, synced: Synced[T], problem: OperatorError | None
    ) -> float | None:
        """Write the status if it changed; gives the seconds until a change that may wait has to be written."""
        # Others write this status, too (a set's controller says of a group that its gang is being terminated), and
        # this controller has since `obj` was read: what is stored counts.
        stored = self._informer.store.get(obj.key) or obj
        if stored.metadata.uid != obj.metadata.uid:
            return None  # another one has its name by now
        now = self._clock.now()
        known = (synced.unwritten or stored).status
        status = replace(
            known,
            lastErrors=last_errors(stored.status.lastErrors, problem, now),
            observedGeneration=obj.metadata.generation if synced.is_done else known.observedGeneration,
        )
        wanted = self._with_status(owner, replace(stored, status=status), now)
        if wanted.status == stored.status:
            self._debounce.flushed(obj.key)
            return None
        left = self._debounce.seconds_left(obj.key, self._patience_seconds(stored, wanted))
        if left:
            return left
        self._status_changes(stored, wanted)
        with suppress(NotFound):
            await self._cluster.write_status(stored, wanted)
        return None
