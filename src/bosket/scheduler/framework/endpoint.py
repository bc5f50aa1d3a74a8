"""Plugins that answer questions over HTTP instead of taking part in decisions.

Where the configuration names one, the running scheduler serves its path to those on the same machine
(`bosket.runtime.local_server`), at KAI's plugin-server-port. A path is asked for seldom and decides nothing: it may
look at everything, must change nothing, and does what takes long in a thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from bosket.kube.client import Client
from bosket.runtime.local_server import Answer
from bosket.scheduler.framework.session import Session
from bosket.scheduler.recording.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Insight:
    """What an endpoint may read."""

    client: Client
    record: Callable[[], Recorded]  #: all that the scheduler knows at this moment
    #: a session on the cluster as it is at this moment, with the configured plugins; nobody else has it
    open_session: Callable[[], Session]


class Endpoint(ABC):
    """A plugin with a path of its own."""

    path: ClassVar[str]

    def open(self, session: Session) -> None:
        """An endpoint registers nothing with the session."""
        del session

    @abstractmethod
    async def answer(self, insight: Insight) -> Answer:
        """Called on the event loop, for each request."""
