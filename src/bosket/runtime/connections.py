"""How connections end with the process, or the test, that has them: at once, whether the other side agrees or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import web

#: Rounds of the event loop after which connections that were aborted, or were just being made, are closed.
_CLOSING_ROUNDS: Final = 5


async def stop_serving(runner: web.ServerRunner) -> None:
    """Stops listening, lets requests finish for a while, and ends what is left."""
    listening = runner.server
    connections = [each.transport for each in listening.connections] if listening is not None else []
    await runner.cleanup()
    # A closed TLS connection waits for its peer's goodbye, which one that went away never says.
    for transport in connections:
        if transport is not None:
            transport.abort()
    for _ in range(_CLOSING_ROUNDS):
        await asyncio.sleep(0)
