"""The network transport against a server on loopback, with TLS."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from bosket.api.core import Pod
from bosket.kube.carrier import ClusterConfig
from bosket.kube.client import Client
from bosket.kube.credentials import Certificate, Credential, FixedCredential, bearer
from bosket.kube.errors import ConfigError, TransportError, Unauthorized
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import connect
from bosket.kube.transport import Request
from tests.kube.certificates import Authority
from tests.kube.scripted import bookmark, event, pod
from tests.kube.streams import talking

AUTHORITY = Authority()
GET = Request("GET", "/x")
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handle: Handle, tmp_path: Path, *, tls: bool = True, host: str = "") -> AsyncIterator[ClusterConfig]:
    """A server that answers everything with `handle`, and asks for client certificates without insisting."""
    context = None
    if tls:
        signed = AUTHORITY.sign("server", host)
        pem = tmp_path / "server.pem"
        pem.write_bytes(signed.chain + signed.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=AUTHORITY.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the authority has no key usage, as many clusters' have none
        context.load_cert_chain(pem)
    runner = web.AppRunner(_application(handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield ClusterConfig(f"{'https' if tls else 'http'}://127.0.0.1:{port}", certificate_authority=AUTHORITY.pem)
    finally:
        await runner.cleanup()


def _application(handle: Handle) -> web.Application:
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", handle)
    return application


@asynccontextmanager
async def connected(config: ClusterConfig, **options: float) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(config, **options)  # type: ignore[arg-type]
    try:
        yield transport
    finally:
        await transport.aclose()


async def test_a_request_arrives_whole_over_tls_and_its_answer_comes_back(tmp_path: Path) -> None:
    seen: list[web.Request] = []
    bodies: list[bytes] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request)
        bodies.append(await request.read())
        return web.Response(status=418, body=b"tea", headers={"Retry-After": "3"})

    async with serving(handle, tmp_path) as config, connected(config) as transport:
        headers = {"Content-Type": "application/json", "X-Other": "y"}
        response = await transport.request(
            Request("PATCH", "/apis/a b/ü%", (("labelSelector", "a in (b,c)"), ("x", "1&2=3")), headers, b"{}")
        )
    assert (response.status, response.body, response.headers["retry-after"]) == (418, b"tea", "3")
    assert seen[0].method == "PATCH"
    assert seen[0].path == "/apis/a b/ü%"
    assert dict(seen[0].query) == {"labelSelector": "a in (b,c)", "x": "1&2=3"}
    assert seen[0].headers["X-Other"] == "y"
    assert bodies == [b"{}"]


async def test_connect_makes_a_client_of_a_kubeconfig(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer t"
        return web.json_response(pod("a", 7))

    async with serving(handle, tmp_path) as config:
        kubeconfig = tmp_path / "config"
        cluster = {"server": config.server, "certificate-authority-data": base64.b64encode(AUTHORITY.pem).decode()}
        document = {
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        }
        kubeconfig.write_text(json.dumps(document))
        client = connect(kubeconfig)
        assert (await client.get(Pod, "a", "ns")).metadata.resourceVersion == "7"
        await client.aclose()


async def test_a_server_whose_url_has_a_path_is_reached_under_it(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    async with (
        serving(handle, tmp_path, tls=False) as config,
        connected(replace(config, server=config.server + "/k8s/c1")) as transport,
    ):
        assert (await transport.request(GET)).body == b"/k8s/c1/x"


async def test_connections_are_kept_alive(tmp_path: Path) -> None:
    peers: set[object] = set()

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response()

    async with serving(handle, tmp_path) as config, connected(config) as transport:
        for _ in range(5):
            await transport.request(GET)
    assert len(peers) == 1


async def test_a_server_that_nobody_vouches_for_is_not_talked_to(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        raise AssertionError(request)

    stranger = Authority().pem
    async with (
        serving(handle, tmp_path) as config,
        connected(replace(config, certificate_authority=stranger)) as transport,
    ):
        with pytest.raises(TransportError, match="certificate") as caught:
            await transport.request(GET)
    assert not caught.value.maybe_carried_out


async def test_a_server_under_another_name_is_accepted_by_that_name_only(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async with serving(handle, tmp_path, host="kubernetes.test") as config:
        async with connected(config) as transport:
            with pytest.raises(TransportError, match=r"(?i)certificate"):
                await transport.request(GET)
        async with connected(replace(config, tls_server_name="kubernetes.test")) as transport:
            assert (await transport.request(GET)).body == b"ok"
        unverified = replace(config, verify_server=False, certificate_authority=None)
        async with connected(unverified) as transport:
            assert (await transport.request(GET)).body == b"ok"


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        return web.Response(text=peer["subject"][0][0][1] if peer else "nobody")

    signed = AUTHORITY.sign("alice")
    credentials = FixedCredential(Credential(certificate=Certificate(signed.chain, signed.key)))
    async with serving(handle, tmp_path) as config:
        async with connected(config) as transport:
            assert (await transport.request(GET)).body == b"nobody"
        async with connected(replace(config, credentials=credentials)) as transport:
            assert (await transport.request(GET)).body == b"alice"


class Renewing:
    """Credentials of which the first is refused."""

    def __init__(self, *credentials: Credential) -> None:
        self._left = list(credentials)

    async def current(self) -> Credential:
        return self._left[0]

    async def after_refusal(self, refused: Credential) -> Credential | None:
        assert refused == self._left[0]
        if len(self._left) == 1:
            return None
        self._left.pop(0)
        return self._left[0]


async def test_a_renewed_client_certificate_gets_new_connections(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        name = request.transport.get_extra_info("peercert")["subject"][0][0][1]
        return web.Response(text=name, status=200 if name == "three" else 401)

    signed = [AUTHORITY.sign(name) for name in ("one", "two", "three")]
    source = Renewing(*[Credential(certificate=Certificate(each.chain, each.key)) for each in signed])
    async with serving(handle, tmp_path) as config, connected(replace(config, credentials=source)) as transport:
        assert (await transport.request(GET)).body == b"two"
        assert (await transport.request(GET)).body == b"three"
        assert (await transport.request(GET)).status == 200


async def test_after_401_a_new_token_is_tried_once(tmp_path: Path) -> None:
    tokens: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        tokens.append(request.headers["Authorization"])
        return web.Response(status=200 if tokens[-1] == "Bearer good" else 401)

    source = Renewing(Credential(bearer("old")), Credential(bearer("good")))
    async with serving(handle, tmp_path) as config, connected(replace(config, credentials=source)) as transport:
        assert (await transport.request(GET)).status == 200
        assert (await transport.request(GET)).status == 200
    assert tokens == ["Bearer old", "Bearer good", "Bearer good"]


async def test_a_token_that_stays_refused_is_unauthorized(tmp_path: Path) -> None:
    calls: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        calls.append(request.path)
        return web.Response(status=401)

    source = Renewing(Credential(bearer("a")), Credential(bearer("b")), Credential(bearer("c")))
    async with serving(handle, tmp_path) as config, connected(replace(config, credentials=source)) as transport:
        with pytest.raises(Unauthorized):
            await Client(transport).get(Pod, "a", "ns")
    assert len(calls) == 2


async def test_impersonation_headers_go_with_every_request(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        groups = ",".join(request.headers.getall("Impersonate-Group"))
        return web.Response(text=f"{request.headers['Impersonate-User']} {groups}")

    acting = (("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    async with serving(handle, tmp_path) as config, connected(replace(config, impersonation=acting)) as transport:
        assert (await transport.request(GET)).body == b"bob a,b"


async def test_a_redirect_is_not_followed_with_our_credentials(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving(handle, tmp_path) as config, connected(config) as transport:
        assert (await transport.request(GET)).status == 302


async def test_compressed_answers_are_unpacked_and_compression_can_be_declined(tmp_path: Path) -> None:
    accepted: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        accepted.append(request.headers.get("Accept-Encoding", ""))
        return web.Response(body=gzip.compress(b"long"), headers={"Content-Encoding": "gzip"})

    async with serving(handle, tmp_path) as config:
        async with connected(config) as transport:
            assert (await transport.request(GET)).body == b"long"
            await transport.request(Request("GET", "/x", headers={"accept-encoding": "identity"}))
        async with connected(replace(config, compression=False)) as transport:
            await transport.request(GET)
    assert accepted == ["gzip", "identity", "identity"]


# --- failures


async def test_a_refused_connection_was_certainly_not_carried_out() -> None:
    unused = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = unused.sockets[0].getsockname()[1]
    unused.close()
    await unused.wait_closed()
    async with connected(ClusterConfig(f"http://127.0.0.1:{port}")) as transport:
        with pytest.raises(TransportError, match="GET /x: no answer") as caught:
            await transport.request(GET)
    assert not caught.value.maybe_carried_out


@asynccontextmanager
async def raw_server(*parts: bytes, then_close: bool) -> AsyncIterator[ClusterConfig]:
    """Answers each connection with these bytes, then hangs up or stays silent."""
    done = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
        await writer.drain()
        if not then_close:
            await done.wait()

    async with talking(talk) as port:
        yield ClusterConfig(f"http://127.0.0.1:{port}")
        done.set()


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


@pytest.mark.parametrize("sent", [b"", HEAD + chunk(b"{")], ids=["before the answer", "in the middle of it"])
async def test_a_hang_up_may_have_been_carried_out(sent: bytes) -> None:
    async with raw_server(sent, then_close=True) as config, connected(config) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.request(Request("POST", "/x", body=b"{}"))
    assert caught.value.maybe_carried_out


@asynccontextmanager
async def forgetful_server() -> AsyncIterator[ClusterConfig]:
    """Answers the first request of each connection, and hangs up at the second."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")

    async with talking(talk) as port:
        yield ClusterConfig(f"http://127.0.0.1:{port}")


async def test_a_connection_that_the_server_closed_is_replaced_where_nothing_can_be_done_twice() -> None:
    async with forgetful_server() as config, connected(config) as transport:
        for _ in range(3):
            assert (await transport.request(GET)).body == b"ok"
        with pytest.raises(TransportError, match="hung up") as caught:
            await transport.request(Request("POST", "/x"))
        assert caught.value.maybe_carried_out
        assert (await transport.request(Request("POST", "/x"))).body == b"ok"


async def test_of_headers_whose_names_differ_in_case_the_last_one_is_sent(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=",".join(request.headers.getall("Content-Type")))

    headers = {"Content-Type": "application/json", "content-type": "application/merge-patch+json"}
    async with serving(handle, tmp_path) as config, connected(config) as transport:
        answer = await transport.request(Request("PATCH", "/x", headers=headers, body=b"{}"))
    assert answer.body == b"application/merge-patch+json"


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb"])
async def test_a_header_can_t_smuggle_another_one_in(value: str, tmp_path: Path) -> None:
    async def handle(_: web.Request) -> web.Response:
        raise AssertionError("was sent")

    async with serving(handle, tmp_path, tls=False) as config, connected(config) as transport:
        with pytest.raises(TransportError, match="line breaks") as caught:
            await transport.request(Request("GET", "/x", headers={"Accept": value}))
    assert not caught.value.maybe_carried_out


async def test_a_server_behind_a_proxy_is_asked_through_it() -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(HEAD + chunk(bookmark("5")) + b"0\r\n\r\n")
        await writer.drain()

    async with talking(talk) as port:
        config = ClusterConfig("http://cluster.example", proxy_url=f"http://127.0.0.1:{port}")
        async with connected(config) as transport:
            assert (await transport.request(GET)).body == bookmark("5")
            seen = [each.resource_version async for each in Client(transport).watch(Pod, resource_version="1")]
    assert seen == ["5"]
    assert heads[0].startswith(b"GET http://cluster.example/x HTTP/1.1")


async def test_a_server_that_does_not_answer_in_time_may_have_carried_it_out() -> None:
    async with raw_server(then_close=False) as config, connected(config, timeout_seconds=0.05) as transport:
        with pytest.raises(TransportError, match="timed out") as caught:
            await transport.request(GET)
        assert caught.value.maybe_carried_out
        with pytest.raises(TransportError, match="timed out"):
            await transport.request(Request("GET", "/x", timeout_seconds=0.01))


async def test_a_watch_on_which_nothing_arrives_is_given_up() -> None:
    async with (
        raw_server(HEAD, chunk(bookmark("5")), then_close=False) as config,
        connected(config, idle_limit_seconds=0.05, timeout_seconds=0.01) as transport,
    ):
        events = Client(transport).watch(Pod, resource_version="1")
        assert (await anext(events)).resource_version == "5"
        with pytest.raises(TransportError, match="timed out"):
            await anext(events)


async def test_a_watch_that_breaks_off_is_a_transport_error() -> None:
    async with raw_server(HEAD, chunk(bookmark("5")), then_close=True) as config, connected(config) as transport:
        with pytest.raises(TransportError):
            _ = [each async for each in Client(transport).watch(Pod, resource_version="1")]


async def test_a_watch_streams_events_and_ends_cleanly(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        line = event("ADDED", pod("a", 2))
        for part in (line[:30], line[30:] + bookmark("3"), bookmark("4")):
            await answer.write(part)
        await answer.write_eof()
        return answer

    async with serving(handle, tmp_path) as config, connected(config) as transport:
        seen = [each.resource_version async for each in Client(transport).watch(Pod, resource_version="1")]
    assert seen == ["2", "3", "4"]


async def test_watches_do_not_use_up_the_connections_of_requests(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(text="ok")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.Event().wait()
        return answer

    async with serving(handle, tmp_path) as config, connected(config, connection_limit=1) as transport:
        streams = [await transport.stream(Request("GET", "/x", (("watch", "true"),))) for _ in range(5)]
        assert (await transport.request(GET)).body == b"ok"
        for stream in streams:
            await stream.aclose()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"certificate_authority": b"-----BEGIN nonsense"}, "the certificate authority of https://127.0.0.1:1"),
        (
            {"credentials": FixedCredential(Credential(certificate=Certificate(b"x", b"y")))},
            "the client certificate and key for https://127.0.0.1:1",
        ),
    ],
)
async def test_certificates_that_can_t_be_used_are_named(change: dict[str, object], complaint: str) -> None:
    config = replace(ClusterConfig("https://127.0.0.1:1"), **change)  # type: ignore[arg-type]
    async with connected(config) as transport:
        with pytest.raises(ConfigError, match=complaint):
            await transport.request(GET)
