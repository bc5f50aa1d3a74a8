"""Requests made to hurt, over the network: huge, deep, slow, endless, malformed. Others are answered meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import serve
from bosket.apiserver.request.resource_request import User
from bosket.runtime.clock import SystemClock
from tests.fuzz.fuzzed import MISTAKES, SECONDS, resident_mebibytes

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BEARER = "authorization: Bearer secret\r\nhost: x\r\n"
MEBIBYTE = 2**20
_GROWTH_MEBIBYTES = 250


@dataclass
class Target:
    """A server that listens, and one who may ask it everything."""

    port: int
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        """The answer, which comes in time and is no mistake of the server's."""
        if isinstance(request.get("data"), bytes):
            request["data"] = io.BytesIO(request["data"])
        async with asyncio.timeout(SECONDS):
            async with self.session.request(method, f"http://127.0.0.1:{self.port}{path}", **request) as answer:
                body = await answer.read()
        assert answer.status not in MISTAKES, (answer.status, body[:500])
        return answer.status, body

    async def raw(self, *pieces: bytes) -> bytes:
        """What comes back on a connection of one's own, until it is closed or nothing comes any more."""
        async with self.connection() as (reader, writer):
            answer = b""
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                async with asyncio.timeout(0.5):
                    while chunk := await reader.read(65536):
                        answer += chunk
            except (TimeoutError, ConnectionError):
                pass
            assert not answer.startswith((b"HTTP/1.1 500", b"HTTP/1.0 500")), answer
            return answer

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def is_well(self) -> bool:
        status, _ = await self.ask("GET", "/api/v1/namespaces/default")
        return status == 200


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    server = ApiServer(clock=SystemClock())
    listener = await serve(server, tokens={"secret": User("admin", ("system:masters",))})
    async with aiohttp.ClientSession(headers={"authorization": "Bearer secret"}) as session:
        found = Target(listener.port, session)
        before = resident_mebibytes()
        yield found
        assert await found.is_well()
        assert resident_mebibytes() - before < _GROWTH_MEBIBYTES
    await listener.aclose()


def manifest(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **more}


async def test_bodies_that_are_too_large_are_refused(target: Target) -> None:
    status, body = await target.ask("POST", CONFIG_MAPS, data=b" " * (4 * MEBIBYTE))
    assert (status, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b'{"a":"' + b"x" * MEBIBYTE

    try:
        status, _ = await target.ask("POST", CONFIG_MAPS, data=endless())
    except aiohttp.ClientError:
        status = 413  # it hung up before we had said everything
    assert status == 413


async def test_bodies_that_are_larger_than_they_look_are_refused(target: Target) -> None:
    bomb = gzip.compress(b" " * (200 * MEBIBYTE))
    status, _ = await target.ask(
        "POST", CONFIG_MAPS, data=bomb, headers={"content-encoding": "gzip", "content-type": "application/json"}
    )
    assert 400 <= status < 500
    deep = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (97 + n, 97 + n, b",".join([b"*%c" % (96 + n)] * 9)) for n in range(1, 12)
    )
    status, _ = await target.ask("POST", CONFIG_MAPS, data=deep, headers={"content-type": "application/yaml"})
    assert status == 400


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml", "application/merge-patch+json"])
async def test_deep_nesting_is_refused(target: Target, content_type: str) -> None:
    for body in (b"[" * 500_000, b'{"a":' * 300_000, b"[" * 200 + b"]" * 200, b'{"a":' * 150 + b"1" + b"}" * 150):
        status, _ = await target.ask("POST", CONFIG_MAPS, data=body, headers={"content-type": content_type})
        assert status in (400, 415), (status, body[:20])


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\xfd",
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"a"},"data":{"\xc3\x28":"x"}}',
        b'{"metadata":{"name":"\\ud800"}}',
        b'{"metadata":{"name":"a","labels":{"a":"\\udfff"}}}',
        b'\xef\xbb\xbf{"metadata":{"name":"a"}}',
    ],
)
async def test_text_that_is_no_utf8_is_refused(target: Target, body: bytes) -> None:
    for content_type in ("application/json", "application/yaml"):
        status, _ = await target.ask("POST", CONFIG_MAPS, data=body, headers={"content-type": content_type})
        assert status in (201, 400, 409, 422), status


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/api//v1/pods",
        "/api/v1/../../etc/passwd",
        "/api/v1/%2e%2e/%2e%2e/x",
        "/api/v1/namespaces/%00/pods",
        "/api/v1/namespaces/%ff%fe/pods",
        "/api/v1/namespaces/a%2Fb/pods",
        "/api/v1/namespaces/default/pods/a%0d%0aset-cookie:x",
        "/api/v1/namespaces/" + "x" * 7000 + "/pods",
        "/" + "a/" * 3000,
        "/apis/%7Bgroup%7D/v1/things",
        "/api/v1/watch/watch/watch/pods",
        "/api/v1/namespaces/default/pods/x/y/z/w",
        "/openapi/v3/../v2",
        "/readyz/../metrics",
        "*",
        "http://other/api/v1/pods",
    ],
)
async def test_odd_paths_are_answered(target: Target, path: str) -> None:
    answer = await target.raw(f"GET {path} HTTP/1.1\r\n{BEARER}connection: close\r\n\r\n".encode())
    code = int(answer.split(b" ", 2)[1])
    assert code in (200, 301, 400, 403, 404, 405, 414), answer[:300]
    assert b"set-cookie" not in answer.lower().partition(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00" * 100,
        b"GET",
        b"GET /api HTTP/9.9\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /api HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n\r\n",
        b"GET /api/v1/pods?%zz=%&&&==;;; HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_hardly_http_is_refused_or_hung_up_on(target: Target, request_bytes: bytes) -> None:
    answer = await target.raw(request_bytes)
    assert not answer or int(answer.split(b" ", 2)[1]) in (400, 401, 403, 404, 405, 414, 431, 505), answer[:300]


async def test_slow_clients_keep_nobody_waiting(target: Target) -> None:
    """Requests whose end doesn't come, and answers that nobody takes."""
    half = f"POST {CONFIG_MAPS} HTTP/1.1\r\n{BEARER}content-length: 1000\r\n\r\n{{".encode()
    parts = [half, f"GET /api/v1/pods HTTP/1.1\r\n{BEARER}x-slow".encode(), b"G"]
    readers_away = f"GET {PODS}?watch=true HTTP/1.1\r\n{BEARER}\r\n".encode()
    connections = [await asyncio.open_connection("127.0.0.1", target.port) for _ in range(100)]
    for number, (_, writer) in enumerate(connections):
        writer.write([*parts, readers_away][number % 4])
    try:
        for _ in range(20):
            assert await target.is_well()
    finally:
        for _, writer in connections:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)


async def test_huge_selectors_and_parameters_are_answered(target: Target) -> None:
    values = ",".join(f"v{number}" for number in range(3000))
    for name, value in {
        "labelSelector": f"a in ({values})",
        "fieldSelector": ",".join(["metadata.name!=x"] * 1000),
        "continue": "A" * 20_000,
        "resourceVersion": "9" * 5000,
        "limit": "9" * 5000,
        "timeoutSeconds": "9" * 400,
    }.items():
        status, _ = await target.ask("GET", PODS, params={name: value})
        assert status in (200, 400, 410, 414, 422, 431, 504), (name, status)
    repeated = "&".join("labelSelector=a" for _ in range(1000))
    assert (await target.ask("GET", f"{PODS}?{repeated}"))[0] in (200, 400)
    nested = "a" + " in (" * 3000
    assert (await target.ask("GET", PODS, params={"labelSelector": nested}))[0] == 400


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/data", "path": f"/data/x{number}"} for number in range(40)],
        [{"op": "add", "path": "/data/a", "value": "x"}] * 20_000,
        [{"op": "add", "path": "/a" * 5000, "value": 1}],
        [{"op": "replace", "path": "/metadata", "value": {}}],
        [{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}],
        [{"op": "add", "path": "/metadata/managedFields", "value": [{"fieldsV1": {"f:" * 100: {}}}]}],
        [{"op": "add", "path": "/metadata/ownerReferences", "value": [{"uid": "x"}] * 5000}],
        [{"op": "test", "path": "/data/a", "value": {"x": [1] * 5000}}],
        {"op": "add"},
        "add",
    ],
    ids=lambda operations: json.dumps(operations)[:40],
)
async def test_bad_patches_change_nothing_and_are_answered(target: Target, operations: Any) -> None:
    assert (await target.ask("POST", CONFIG_MAPS, json=manifest(data={"a": "b"})))[0] == 201
    headers = {"content-type": "application/json-patch+json"}
    status, _ = await target.ask("PATCH", f"{CONFIG_MAPS}/a", data=json.dumps(operations).encode(), headers=headers)
    assert status in (200, 400, 413, 422)
    _, found = await target.ask("GET", f"{CONFIG_MAPS}/a")
    assert json.loads(found)["data"]["a"] in ("b", "x")


async def test_a_patch_that_doubles_what_it_copies_is_refused(target: Target) -> None:
    """Copies of copies: thirty of them would fill the memory."""
    definition = {
        "metadata": {"name": "bombs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "bombs", "kind": "Bomb"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await target.ask("POST", path, json=definition))[0] == 201
    bombs = "/apis/example.com/v1/bombs"
    assert (await target.ask("POST", bombs, json={"metadata": {"name": "b"}, "spec": {"x": "y" * 1000}}))[0] == 201
    operations = [{"op": "copy", "from": "/spec", "path": f"/spec/x{number}"} for number in range(30)]
    status, _ = await target.ask(
        "PATCH",
        f"{bombs}/b",
        data=json.dumps(operations).encode(),
        headers={"content-type": "application/json-patch+json"},
    )
    assert status in (413, 422)


async def watches(target: Target) -> int:
    """How many are under way."""
    _, text = await target.ask("GET", "/metrics")
    found = [line for line in text.decode().splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return int(found[0].rpartition(" ")[2])


async def test_bad_watches_are_refused_and_good_ones_do_not_pile_up(target: Target) -> None:
    for query in (
        "watch=true&resourceVersion=x",
        "watch=true&resourceVersion=99999999999",
        "watch=true&sendInitialEvents=true",
        "watch=true&timeoutSeconds=x",
        "watch=true&fieldSelector=spec.x=1",
        "watch=true&labelSelector=((",
        "watch=true&resourceVersionMatch=Never&sendInitialEvents=true",
    ):
        status, _ = await target.ask("GET", f"{PODS}?{query}")
        assert status in (400, 410, 422, 504), (query, status)
    for _ in range(200):
        async with target.connection() as (reader, writer):
            writer.write(f"GET {PODS}?watch=true HTTP/1.1\r\n{BEARER}\r\n".encode())
            await reader.readline()

    async with asyncio.timeout(SECONDS):
        while await watches(target):
            await target.is_well()
