"""A server that is asked all sorts of things, and what it must never do: answer 500, hang, or grow."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from bosket.api.crd import crd_manifests
from bosket.apiserver import ApiServer
from bosket.kube.transport import Request
from bosket.runtime.clock import SystemClock

#: An answer takes no longer than this, whatever was asked.
SECONDS = 5.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: What errors of this server's own look like. 504 is the answer to versions of the future.
MISTAKES = (500, 501, 502, 503)
#: What kube-apiserver calls an internal error too, though it is the client's doing.
AS_IN_KUBERNETES = b"This pod has more than one PodDisruptionBudget"


def budget_seconds(default: float) -> float:
    """How long to look for trouble: more by BOSKET_FUZZ_SECONDS."""
    return float(os.environ.get("BOSKET_FUZZ_SECONDS") or default)


def chance() -> random.Random:
    """The same every time, unless there is more time than usual: then others, which can be had again by their seed."""
    usual = 0 if "BOSKET_FUZZ_SECONDS" not in os.environ else random.SystemRandom().randrange(2**32)
    seed = int(os.environ.get("BOSKET_FUZZ_SEED") or usual)
    print(f"BOSKET_FUZZ_SEED={seed}")
    return random.Random(seed)


def resident_mebibytes() -> float:
    """What this process takes of the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Fuzzed:
    """A server in this process with Bosket's own kinds, on a loop of its own, so that it can be asked from anywhere."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.server = self._runner.run(self._start())
        self._transport = self.server.transport()
        self.asked = 0

    async def _start(self) -> ApiServer:
        return ApiServer(clock=SystemClock())

    def teach(self, manifests: Iterable[dict[str, Any]] | None = None) -> None:
        for manifest in crd_manifests() if manifests is None else manifests:
            assert self.ask("POST", DEFINITIONS, json.dumps(manifest).encode()) == 201

    def close(self) -> None:
        self._runner.close()

    def read(self, path: str) -> Any:
        return self._runner.run(self._read(path))

    async def _read(self, path: str) -> Any:
        return json.loads((await self._transport.request(Request("GET", path))).body)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        query: Any = None,
        headers: dict[str, str] | None = None,
    ) -> int:
        """The code that a request is answered with; fails if the server made a mistake or took too long."""
        self.asked += 1
        pairs = tuple(parse_qsl(urlencode(query or {}, doseq=True), keep_blank_values=True))
        about = {"content-type": content_type, "user-agent": "fuzz/1", **(headers or {})}
        return self._runner.run(self._ask(Request(method, path, pairs, about, body)))

    async def _ask(self, request: Request) -> int:
        shown = f"{request.method} {request.path!r} {request.query!r} {request.headers} {request.body[:2000]!r}"
        try:
            async with asyncio.timeout(SECONDS):
                stream = await self._transport.stream(request)
                chunks = aiter(stream)
                try:
                    async with asyncio.timeout(0.02):  # a watch says something at once, or is left
                        first = await anext(chunks, b"")
                except TimeoutError:
                    first = b""
                assert isinstance(chunks, AsyncGenerator)
                await chunks.aclose()
                await stream.aclose()
        except TimeoutError:
            raise AssertionError(f"no answer within {SECONDS} s: {shown}") from None
        assert stream.status not in MISTAKES or AS_IN_KUBERNETES in first, f"{stream.status} {first[:500]!r}: {shown}"
        if stream.status >= 400:
            status = json.loads(first)
            assert (status["kind"], status["code"]) == ("Status", stream.status), f"{status}: {shown}"
            assert status["message"], shown
        return stream.status
