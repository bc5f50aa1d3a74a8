"""The webhook server: HTTP over TLS around the review handlers, with limits on sizes, numbers and times.

Anybody on the cluster's network can connect, so everything that is sent is bounded. A review is answered in well under
a millisecond and in one go; what takes time is reading it. An error is an HTTP error, which the API server treats by
its failure policy; an exception of a handler is a bug, logged and counted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from bosket.kube.errors import KubeError
from bosket.runtime.clock import Clock
from bosket.runtime.serving import stop_serving
from bosket.runtime.webhook.metrics import WebhookMetrics
from bosket.runtime.webhook.review import AnyReviewHandler, UnreadableReview, read_review, write_answer
from bosket.runtime.webhook.verdict import Verdict

_log = logging.getLogger(__name__)

#: As controller-runtime: two objects of the largest size that etcd takes, and some.
MAX_BODY_BYTES: Final = 7 * 1024 * 1024
MAX_HEADER_BYTES: Final = 32 * 1024
#: More wait for their turn.
MAX_IN_FLIGHT: Final = 32
#: What an API server waits for an answer; who is slower has nobody to tell it to.
REQUEST_SECONDS: Final = 10.0
#: After which a connection on which nothing is asked is closed; API servers give theirs up before that.
IDLE_SECONDS: Final = 120.0
#: How long the rest of a body is read and thrown away, so that its sender gets to hear the answer.
_LINGER_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 2.0


@asynccontextmanager
async def serve_webhooks(
    handlers: Mapping[str, AnyReviewHandler],
    context: ssl.SSLContext,
    *,
    host: str,
    port: int,
    clock: Clock,
    metrics: WebhookMetrics,
) -> AsyncIterator[str]:
    """Serve while the block runs; gives the URL. Port 0 takes any that is free."""
    handler = _Handler(handlers, clock, metrics)
    low_level = web.Server(
        handler.handle,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=_LINGER_SECONDS,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        access_log=None,
    )
    runner = web.ServerRunner(low_level, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        shown = f"[{host}]" if ":" in host else host
        yield f"https://{shown}:{runner.addresses[0][1]}"
    finally:
        await stop_serving(runner)


class _Handler:
    def __init__(self, handlers: Mapping[str, AnyReviewHandler], clock: Clock, metrics: WebhookMetrics) -> None:
        self._handlers = handlers
        self._clock = clock
        self._metrics = metrics
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = self._handlers.get(request.path)
        if review is None:
            return _failure(404, f"there is no {request.path} here; there is {', '.join(self._handlers)}")
        if request.method != "POST":
            return _failure(405, "a webhook answers POST")
        with self._metrics.answering(request.path, self._clock):
            try:
                async with asyncio.timeout(REQUEST_SECONDS), self._slots:
                    response = await self._answer(request, review)
            except TimeoutError:
                response = _failure(503, f"not read and answered within {REQUEST_SECONDS:g} s")
        self._metrics.answered(request.path, response.status)
        return response

    async def _answer(self, request: web.BaseRequest, handler: AnyReviewHandler) -> web.Response:
        body = await _read(request)
        if body is None:
            return _failure(413, f"more than {MAX_BODY_BYTES} bytes")
        try:
            admission_request = read_review(body)
        except UnreadableReview as error:
            return _failure(400, str(error))
        try:
            answer = handler(admission_request)
            verdict = answer if isinstance(answer, Verdict) else await answer
        except KubeError as error:
            return _failure(503, f"the cluster can't be asked: {error}")
        except Exception:
            _log.exception("review handler failed", extra={"webhook": request.path, "uid": admission_request.uid})
            return _failure(500, "the webhook made a mistake; its log has the details")
        if verdict.refusals:
            self._metrics.refused(request.path)
        return web.Response(body=write_answer(admission_request, verdict), content_type="application/json")


async def _read(request: web.BaseRequest) -> bytes | None:
    """The body; None if it is too large."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _failure(status: int, text: str) -> web.Response:
    response = web.Response(status=status, text=f"{text}\n")
    response.force_close()  # there may be more of the request, which is not worth reading
    return response
