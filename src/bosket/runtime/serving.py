"""How connections end with the process, or the test, that has them: at once, whether the other side agrees or not."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bosket.runtime.certificates import KeyPair

if TYPE_CHECKING:
    from aiohttp import web

#: Rounds of the event loop after which connections that were aborted, or were just being made, are closed.
_CLOSING_ROUNDS: Final = 5


async def stop_serving(runner: web.ServerRunner) -> None:
    """Stops listening, lets requests finish for a while, and ends what is left."""
    listening = runner.server
    connections = [each.transport for each in listening.connections] if listening is not None else []
    await runner.cleanup()
    # A closed TLS connection waits for the other side's close_notify, which a vanished client never sends.
    for transport in connections:
        if transport is not None:
            transport.abort()
    for _ in range(_CLOSING_ROUNDS):
        await asyncio.sleep(0)


def server_context(key_pair: KeyPair) -> ssl.SSLContext:
    """What a listener needs in order to show this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_key_pair(context, key_pair)
    return context


def load_key_pair(context: ssl.SSLContext, key_pair: KeyPair) -> None:
    """From now on show this certificate; connections that are open keep theirs."""
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_bytes(key_pair.cert_pem)
        key.touch(mode=0o600)
        key.write_bytes(key_pair.key_pem)
        context.load_cert_chain(certificate, key)
