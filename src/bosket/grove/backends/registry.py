"""Registry: chooses the backend of a gang by scheduler name; an annotation overrides the name.

Backends are asked in the order in which they are given: specific ones first. The choice is remembered by name and by
gang, and counted once for each gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from bosket.api import keys
from bosket.api.grove import PodGang
from bosket.grove.backends.backend import SchedulerBackend
from bosket.grove.backends.metrics import backend_metrics


class UnknownBackend(ValueError):
    """A backend that nobody registered; the message lists those that there are."""


class Registry:
    """All backends, and the choices made."""

    def __init__(
        self,
        backends: Iterable[SchedulerBackend],
        *,
        default_scheduler_name: str = keys.DEFAULT_SCHEDULER_NAME,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        """`default_scheduler_name` is whose the pods are that name no scheduler."""
        self._backends: dict[str, SchedulerBackend] = {}
        for backend in backends:
            if backend.name in self._backends:
                raise ValueError(f'there are two backends "{backend.name}"')
            self._backends[backend.name] = backend
        self._default_scheduler_name = default_scheduler_name
        self._by_name: dict[tuple[str, str], SchedulerBackend] = {}
        self._by_gang: dict[str, tuple[tuple[str, str], SchedulerBackend]] = {}
        self._metrics = backend_metrics(metrics if metrics is not None else CollectorRegistry())

    @property
    def backends(self) -> tuple[SchedulerBackend, ...]:
        return tuple(self._backends.values())

    def get(self, name: str) -> SchedulerBackend:
        """The backend of that name; raises `UnknownBackend`."""
        try:
            return self._backends[name]
        except KeyError:
            raise UnknownBackend(
                f'there is no scheduler backend "{name}"; there are: {", ".join(self._backends)}'
            ) from None

    def scheduler_name(self, scheduler_name: str) -> str:
        """The backend's name for pods with this `schedulerName`."""
        return scheduler_name or self._default_scheduler_name

    def choose(self, scheduler_name: str, annotations: Mapping[str, str] | None = None) -> SchedulerBackend:
        """The backend for pods of this scheduler, unless an annotation of their set names one."""
        return self._choose((annotations or {}).get(keys.GROVE_BACKEND_ANNOTATION, ""), scheduler_name)

    def scheduler_of_pods(self, backend: SchedulerBackend, scheduler_name: str) -> str:
        """`schedulerName` of pods that `backend` speaks for and whose clique says `scheduler_name`.

        What the clique says, unless that is another backend's scheduler: an annotation overrules both.
        """
        named = self.scheduler_name(scheduler_name)
        return named if self._choose("", named) is backend else backend.scheduler_name

    def of_gang(self, gang: PodGang) -> SchedulerBackend:
        """The gang's backend: by its annotation, its label, its scheduler's name. Remembered, and counted once."""
        named = gang.metadata.annotations.get(keys.GROVE_BACKEND_ANNOTATION) or gang.metadata.labels.get(
            keys.GROVE_BACKEND_LABEL, ""
        )
        asked = (named, gang.metadata.labels.get(keys.GROVE_SCHEDULER_LABEL, ""))
        known = self._by_gang.get(gang.metadata.uid)
        if known is not None and known[0] == asked:
            return known[1]
        chosen = self._choose(*asked)
        if known is None or known[1] is not chosen:
            self._metrics.chosen(chosen.name)
        self._by_gang[gang.metadata.uid] = (asked, chosen)
        return chosen

    def forget(self, gang: PodGang) -> None:
        """The gang was deleted."""
        self._by_gang.pop(gang.metadata.uid, None)

    def _choose(self, named: str, scheduler_name: str) -> SchedulerBackend:
        asked = (named, self.scheduler_name(scheduler_name))
        chosen = self._by_name.get(asked)
        if chosen is None:
            chosen = self._by_name[asked] = self.get(named) if named else self._matching(asked[1])
        return chosen

    def _matching(self, scheduler_name: str) -> SchedulerBackend:
        for backend in self._backends.values():
            if backend.matches(scheduler_name):
                return backend
        raise UnknownBackend(f'no scheduler backend is for the scheduler "{scheduler_name}"')
