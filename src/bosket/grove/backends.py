"""What the operator asks of the schedulers' backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bosket.api.core import Pod
from bosket.api.grove import PodCliqueSet, PodGang


class NamedBackend(Protocol):
    """A backend, as far as PodGangs say which one is theirs."""

    @property
    def name(self) -> str: ...


class Backends(Protocol):
    """All backends."""

    async def wait_ready(self) -> None:
        """Until they know the cluster."""

    def choose(self, scheduler_name: str, annotations: Mapping[str, str] | None = None) -> NamedBackend:
        """The backend for pods of this scheduler, or the one that the set's annotations name."""
        ...

    def pod_additions(self, gang: PodGang, pod: Pod) -> Pod:
        """The gang's pod as it has to be created."""
        ...


def scheduler_of(owner: PodCliqueSet, default: str) -> str:
    """The scheduler of a set's pods: admission sees to it that all cliques name the same."""
    named = (each.spec.podSpec.schedulerName for each in owner.spec.template.cliques)
    return next((each for each in named if each), default)

