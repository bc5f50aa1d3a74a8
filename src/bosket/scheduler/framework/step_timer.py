"""How somebody measures the steps of a cycle, which reads no clock itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

#: Entered for the time of each step: ("open", ""), in it ("plugin", name) for each; ("action", name), in it
#: ("search", generator) for each turn; ("close", ""), in it ("plugin close", name) for each plugin with a `close`
#: method.
StepTimer = Callable[[str, str], AbstractContextManager[None]]


def untimed(step: str, name: str) -> AbstractContextManager[None]:
    """For those who don't measure."""
    del step, name
    return nullcontext()
