"""A transport that answers from a script, and a clock that only notes how long it was asked to sleep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bosket.kube.client import Client
from bosket.kube.retry import RetryPolicy
from bosket.kube.transport import Request, Response


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    """An answer with a JSON body, or with exactly these bytes; header names get dashes for underscores."""
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


def failure(code: int, reason: str = "", message: str = "no", **headers: str) -> Response:
    """An error answer with a Status, as an API server gives it."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return answer({**status, "message": message}, code, **headers)


def event(type: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": type, "object": obj}) + b"\n"


def bookmark(version: str) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}})


def expired() -> bytes:
    return event("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"})


def pod(name: str, version: str | int = "1", namespace: str = "ns", **more: Any) -> dict[str, Any]:
    """A pod as JSON; `more` are further members of its metadata."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version), **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "main"}]}}


def pod_list(version: str | int, *pods: dict[str, Any], token: str = "") -> Response:
    meta = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(pods)})


class Watch:
    """A scripted stream: these chunks, some time without any, then a clean end, an exception, or silence."""

    def __init__(self, *chunks: bytes, end: Exception | str = "clean", lasts_seconds: float = 0.0) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.closed = False
        self._chunks = chunks
        self._end = end
        self._lasts_seconds = lasts_seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        await asyncio.sleep(self._lasts_seconds)
        if isinstance(self._end, Exception):
            raise self._end
        if self._end == "silence":
            await asyncio.Event().wait()

    async def read_all(self) -> bytes:
        return b"".join(self._chunks)

    async def aclose(self) -> None:
        self.closed = True


class Refusal(Watch):
    """A watch that is answered with an error status."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body)
        self.status = response.status
        self.headers = response.headers


class Script:
    """Answers requests, and watches apart from them, in the order given; keeps what it was asked.

    When the watches are used up, further ones stay silent for ever.
    """

    def __init__(self, *answers: Response | Exception, watches: tuple[Watch | Exception, ...] = ()) -> None:
        self._answers = list(answers)
        self._watches = list(watches)
        self.requests: list[Request] = []
        self.watch_requests: list[Request] = []
        self.quiet = asyncio.Event()

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(f"the script has no answer for {request}")
        given = self._answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    async def stream(self, request: Request) -> Watch:
        self.watch_requests.append(request)
        if not self._watches:
            self.quiet.set()
            return Watch(end="silence")
        given = self._watches.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    async def aclose(self) -> None:
        return None


class NotedSleep:
    """Notes each sleep instead of sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def client_of(script: Script, clock: NotedSleep | None = None, retry: RetryPolicy | None = None) -> Client:
    return Client(script, clock=clock or NotedSleep(), retry=retry)
