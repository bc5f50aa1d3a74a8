"""Local pages: what services answer over HTTP to callers on the same machine: snapshots, job order, profiles.

A service adds paths to its environment's `LocalPages`; the process serves them with `serve_local`. There is no
authentication, so the server listens on 127.0.0.1 only, whatever other listeners do, and refuses requests of foreign
web pages (`browser_guard`). Remote access goes through `kubectl port-forward` or ssh, which authenticate.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bosket.runtime.browser_guard import guarded
from bosket.runtime.health import url_of

_log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
NOTE_HEADER: Final = "X-Note"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    file_name: str = ""  #: what a browser saves it as
    note: str = ""  #: a line about it, in the header X-Note
    retry_after_seconds: int = 0  #: when to ask again, in the header Retry-After; 0: not said


Page = Callable[[], Awaitable[Answer]]
Form = Callable[[bytes], Awaitable[Answer]]  #: is given what was sent


class LocalPages:
    """Paths and their handlers. A restarted service replaces the handlers of its former run."""

    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}
        self._forms: dict[str, Form] = {}

    def add(self, path: str, page: Page) -> None:
        """Answers GET."""
        self._pages[path] = page

    def discard(self, path: str) -> None:
        """Nothing answers GET there any more."""
        self._pages.pop(path, None)

    def add_form(self, path: str, form: Form) -> None:
        """Answers POST."""
        self._forms[path] = form

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted({*self._pages, *self._forms}))

    async def answer(self, path: str, posted: bytes | None = None) -> Answer:
        """What is sent back to a GET, or to a POST with a body."""
        if posted is None and path in self._pages:
            return await self._pages[path]()
        if posted is not None and path in self._forms:
            return await self._forms[path](posted)
        if path in self.paths:
            return Answer(f"{path} answers {'POST' if path in self._forms else 'GET'}\n".encode(), "text/plain", 405)
        known = ", ".join(self.paths) or "nothing"
        return Answer(f"there is no {path} here; there is {known}\n".encode(), "text/plain", 404)


@asynccontextmanager
async def serve_local(pages: LocalPages, port: int) -> AsyncIterator[str]:
    """Serve while the block runs; gives the URL. Port 0 takes any that is free; raises OSError for one that isn't."""
    from aiohttp import web  # who only decides does without it

    async def handle(request: web.Request) -> web.Response:
        posted = await request.read() if request.method == "POST" else None
        answer = await pages.answer(request.path, posted)
        headers = {"Content-Type": answer.content_type}
        if answer.file_name:
            headers["Content-Disposition"] = f"attachment; filename={answer.file_name}"
        if answer.note:
            headers[NOTE_HEADER] = answer.note
        if answer.retry_after_seconds:
            headers["Retry-After"] = str(answer.retry_after_seconds)
        return web.Response(body=answer.body, status=answer.status, headers=headers)

    application = web.Application()
    answering = guarded(handle, local=True)
    application.add_routes([web.get("/{path:.*}", answering, allow_head=False), web.post("/{path:.*}", answering)])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        url = url_of(runner, HOST)
        _log.info("answering on this machine", extra={"url": url, "paths": ", ".join(pages.paths)})
        yield url
    finally:
        await runner.cleanup()
