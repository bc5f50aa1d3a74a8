"""A store that answers as it was told to: for tests, and for whoever wants a fixed history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.scheduler.model.resource import Shares
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.source import UsageUnavailable


@dataclass(slots=True)
class FakeUsage:
    """Change it at any time."""

    parts: Mapping[str, Shares] = field(default_factory=dict)
    failure: str = ""  #: why there is no answer, if there is none
    asked: int = 0  #: how often it was

    async def fetch(self, now: float) -> Usage:
        self.asked += 1
        if self.failure:
            raise UsageUnavailable(self.failure)
        return Usage(dict(self.parts), now, "fake")

    async def aclose(self) -> None:
        pass
