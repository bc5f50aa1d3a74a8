"""Large answers are compressed for clients that take them so; kube-apiserver does from the same size on."""

from __future__ import annotations

import asyncio
import zlib

from bosket.kube.transport import Response

#: Below, compressing costs more than it saves.
MIN_BYTES = 128 * 1024
#: From here on others get a turn meanwhile.
_LARGE_BYTES = 1024 * 1024
_FASTEST = 1
#: Tells zlib to write gzip's header and checksum.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


async def compressed(response: Response, accept_encoding: str) -> Response:
    """The same answer, smaller if it is large and the client understands gzip."""
    if len(response.body) < MIN_BYTES or not _takes_gzip(accept_encoding) or "content-encoding" in response.headers:
        return response
    body = await asyncio.to_thread(_gzip, response.body) if len(response.body) > _LARGE_BYTES else _gzip(response.body)
    return Response(response.status, {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}, body)


def _takes_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.split(","):
        coding, _, weight = choice.partition(";")
        if coding.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()
