"""A server on a data directory in a process of its own, to be killed: `Mortal`.

Processes are forked from one that has everything imported already, so that a life costs milliseconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import serve
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.apiserver.request.resource_request import User
from bosket.runtime.clock import SystemClock

TOKEN = "mortal"  # of a server on loopback that lives for a moment


def _live(path: Path, kept_history: int, port: Connection) -> None:
    async def main() -> None:
        with DataDirectory(path) as data:
            server = ApiServer(clock=SystemClock(), data=data, kept_history=kept_history)
            listener = await serve(server, tokens={TOKEN: User("admin", ("system:masters",))})
            port.send(listener.port)
            await server.run()

    asyncio.run(main())


class Mortal(NamedTuple):
    """A server that is alive, until it is killed (SIGKILL)."""

    url: str
    kill: Callable[[], None]


@contextmanager
def mortal(path: Path, *, kept_history: int) -> Iterator[Mortal]:
    """A server that doesn't outlive the block."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(path, kept_history, sender), daemon=True)
    process.start()
    sender.close()
    try:
        yield Mortal(f"http://127.0.0.1:{receiver.recv()}", process.kill)
    finally:
        process.kill()
        process.join()
        process.close()
        receiver.close()
