"""The local page `POST /profile`: takes a CPU profile and returns it.

The body says for how long, how often to look and in which format; all of it may be left out. One at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

import msgspec

from bosket.runtime.local_server import Answer, Form, LocalPages, serve_local
from bosket.runtime.profile_format import FORMATS, Format, summary
from bosket.runtime.profiler import MOST_HERTZ, MOST_SECONDS, NoThreadClocks, take_profile

PATH: Final = "/profile"
DEFAULT_SECONDS: Final = 30.0
DEFAULT_HERTZ: Final = 100


class ProfileRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked for."""

    seconds: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)] = DEFAULT_SECONDS
    hertz: Annotated[int, msgspec.Meta(ge=1, le=MOST_HERTZ)] = DEFAULT_HERTZ
    format: Format = "speedscope"


def add_profile_page(pages: LocalPages, process: str) -> None:
    """`process`: what is profiled, as the file will call it."""
    pages.add_form(PATH, _page(process))


@asynccontextmanager
async def serve_profiles(process: str, port: int | None) -> AsyncIterator[None]:
    """Serve that page alone while the block runs, unless the port is None. Raises OSError for one that is taken."""
    if port is None:
        yield
        return
    pages = LocalPages()
    add_profile_page(pages, process)
    async with serve_local(pages, port):
        yield


def _page(process: str) -> Form:
    under_way = asyncio.Lock()

    async def page(posted: bytes) -> Answer:
        try:
            request = msgspec.json.decode(posted or b"{}", type=ProfileRequest)
        except msgspec.MsgspecError as error:
            return _refusal(400, str(error))
        if under_way.locked():
            return _refusal(409, "another profile is being taken")
        async with under_way:
            stop = threading.Event()
            try:
                profile = await asyncio.to_thread(take_profile, request.seconds, request.hertz, stop)
            except NoThreadClocks as error:
                return _refusal(501, str(error))
            finally:
                # Who asked may be gone, or the process is to end: nobody should wait for the thread.
                stop.set()
        write, file_name = FORMATS[request.format]
        body = await asyncio.to_thread(write, profile, process)
        content_type = "application/json" if request.format == "speedscope" else "text/plain"
        return Answer(body, content_type, file_name=file_name, note=summary(profile))

    return page


def _refusal(status: int, sentence: str) -> Answer:
    return Answer(f"{sentence}\n".encode(), "text/plain", status)
