"""Failures in the operator: as exceptions with Grove's codes, as events, and as entries of a status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from bosket.api.grove import LastError
from bosket.api.object import KubeObject
from bosket.api.time import format_time
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.runtime.controller import ReconcileError
from bosket.runtime.events import EventRecorder


class OperatorError(ReconcileError):
    """A failed part of a reconciliation, with Grove's code (ERR_SYNC_PODCLIQUE)."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description


def last_errors(before: tuple[LastError, ...], problem: OperatorError | None, now: float) -> tuple[LastError, ...]:
    """What a status says of the last problem. One that it named already keeps its time: saying it again is no news."""
    if problem is None:
        return ()
    found = LastError(code=problem.code, description=problem.description, observedAt=format_time(now))
    known = next((each for each in before if replace(each, observedAt=found.observedAt) == found), None)
    return (known or found,)


@contextmanager
def reported(events: EventRecorder, about: KubeObject, reason: str, code: str, what: str) -> Iterator[None]:
    """What goes wrong becomes a Warning about an object; a refusal by the API server goes on as an `OperatorError`.

    What was lost to somebody who was faster is no news: the next look sees more.
    """
    try:
        yield
    except (NotFound, Conflict):
        raise
    except OperatorError as error:
        events.event(about, "Warning", reason, f"{what}: {error.description}")
        raise
    except ApiError as error:
        events.event(about, "Warning", reason, f"{what}: {error.message}")
        raise OperatorError(code, f"{what}: {error.message}") from error
