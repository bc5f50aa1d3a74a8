"""Continuous profiling: this process sends profiles of itself to a Pyroscope server while it runs.

Beside `profile_page`, which takes one profile when somebody asks. The agent is the package `pyroscope-io`, an extra of
Bosket's: it samples from a thread of its own and uploads every ten seconds. A server that doesn't answer costs nothing
but the profiles of that time.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)

EXTRA: Final = "pyroscope"
_UPLOAD_SECONDS: Final = 10


class PyroscopeError(Exception):
    """Profiles can't be sent, and why; for people."""


@contextmanager
def push_profiles(application: str, address: str, *, upload_seconds: int = _UPLOAD_SECONDS) -> Iterator[None]:
    """Sends profiles of CPU and memory while the block runs, unless the address is empty; raises `PyroscopeError`."""
    if not address:
        yield
        return
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
        raise PyroscopeError(f"{address} is no URL of a Pyroscope server such as http://pyroscope:4040")
    try:
        agent = importlib.import_module("pyroscope")
    except ImportError as error:
        raise PyroscopeError(
            f"profiles are sent by the package pyroscope-io, which isn't installed: pip install bosket[{EXTRA}]"
        ) from error
    if not agent.configure(
        application_name=application, server_address=address, upload_interval=upload_seconds, mem_enabled=True
    ):
        raise PyroscopeError(f"the agent that sends profiles to {address} can't be started")
    _log.info("profiles of %s are sent to %s", application, address)
    try:
        yield
    finally:
        agent.shutdown()
