"""The network listener: TLS, authentication, streaming."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import DEFAULT_LIMITS, Limits, Tls, serve
from bosket.apiserver.request.resource_request import User
from bosket.runtime.certificates import Authority, make_authority
from bosket.runtime.clock import SystemClock
from tests.apiserver.world import PODS, pod

TOKEN = "token-of-the-administrator"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Site:
    """A server that listens, and a session that trusts it."""

    server: ApiServer
    url: str
    session: aiohttp.ClientSession
    authority: Authority

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        options["headers"] = {"Content-Type": "application/json", **options.get("headers", ADMIN)}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self.session.request(method, self.url + path, data=data, **options) as response:
            text = await response.read()
            return response.status, json.loads(text) if "json" in response.content_type else text


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("test")


@asynccontextmanager
async def listening(authority: Authority, limits: Limits = DEFAULT_LIMITS) -> AsyncIterator[Site]:
    server = ApiServer(clock=SystemClock())
    key_pair = authority.issue("kube-apiserver", server=True, ips=["127.0.0.1"])
    tokens = {TOKEN: User("admin", ("system:masters",)), "plain": User("someone", ())}
    listener = await serve(server, tls=Tls(key_pair, authority.cert_pem), tokens=tokens, limits=limits)
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield Site(server, listener.url, session, authority)
    await listener.aclose()


@pytest.fixture
async def site(authority: Authority) -> AsyncIterator[Site]:
    async with listening(authority) as site:
        yield site


async def test_a_known_token_gets_in_and_others_are_told_who_they_are_not(site: Site) -> None:
    assert (await site.call("GET", PODS))[0] == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "Bearer"},
    ):
        status, body = await site.call("GET", PODS, headers=headers)
        assert (status, body["kind"], body["reason"]) == (401, "Status", "Unauthorized")


async def test_health_and_version_are_for_everybody(site: Site) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await site.call("GET", path, headers={}))[0] == 200
    for path in ("/metrics", "/api", "/openapi/v3"):
        assert (await site.call("GET", path, headers={}))[0] == 401


async def who(site: Site, session: aiohttp.ClientSession, headers: dict[str, str]) -> Any:
    url = f"{site.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with session.post(url, json={}, headers=headers) as response:
        return (await response.json()).get("status", {}).get("userInfo")


async def test_a_client_certificate_names_user_and_groups(site: Site, tmp_path: Path) -> None:
    pair = site.authority.issue("alice", organizations=["team"], client=True)
    file = tmp_path / "alice.pem"
    file.write_bytes(pair.cert_pem + pair.key_pem)
    context = ssl.create_default_context(cadata=site.authority.cert_pem.decode())
    context.load_cert_chain(file)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        found = await who(site, session, {})
    assert found == {"username": "alice", "groups": ["team", "system:authenticated"]}


async def test_masters_may_act_as_others_and_others_may_not(site: Site) -> None:
    found = await who(site, site.session, {**ADMIN, "Impersonate-User": "bob", "Impersonate-Group": "a"})
    assert found == {"username": "bob", "groups": ["a", "system:authenticated"]}
    headers = {"Authorization": "Bearer plain", "Impersonate-User": "bob"}
    assert (await site.call("GET", PODS, headers=headers))[0] == 403


async def test_a_service_account_token_gets_in(site: Site) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    await site.call("POST", path, {"metadata": {"name": "robot"}})
    _, answer = await site.call("POST", f"{path}/robot/token", {})
    headers = {"Authorization": f"Bearer {answer['status']['token']}"}
    assert (await who(site, site.session, headers))["username"] == "system:serviceaccount:default:robot"


async def test_plain_http_without_tls_is_for_known_tokens_too() -> None:
    listener = await serve(ApiServer(clock=SystemClock()), tokens={TOKEN: User("admin", ("system:masters",))})
    async with aiohttp.ClientSession() as session:
        async with session.get(listener.url + PODS) as response:
            assert response.status == 401
        async with session.get(listener.url + PODS, headers=ADMIN) as response:
            assert response.status == 200
    await listener.aclose()


async def test_paths_are_decoded(site: Site) -> None:
    role = {"metadata": {"name": "system:reader"}, "rules": []}
    assert (await site.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role))[0] == 201
    status, body = await site.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Areader")
    assert (status, body["metadata"]["name"]) == (200, "system:reader")


async def test_watch_events_arrive_line_by_line_as_they_happen(site: Site) -> None:
    async with site.session.get(f"{site.url}{PODS}?watch=true", headers=ADMIN) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        for name in ("a", "b"):
            await site.call("POST", PODS, pod(name))
            async with asyncio.timeout(120):
                event = json.loads(await response.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)


async def test_a_client_that_hangs_up_is_noticed(site: Site) -> None:
    response = await site.session.get(f"{site.url}{PODS}?watch=true", headers=ADMIN)
    assert len(site.server.reader.watchers) == 1
    (watcher,) = site.server.reader.watchers
    closed = asyncio.Event()
    watcher._on_close = lambda _watcher: closed.set()
    response.close()
    async with asyncio.timeout(120):
        await closed.wait()


async def test_stopping_ends_the_watches(authority: Authority) -> None:
    async with listening(authority) as site:
        response = await site.session.get(f"{site.url}{PODS}?watch=true", headers=ADMIN)
        site.server.close_watches()
        async with asyncio.timeout(120):
            assert await response.content.read() == b""


async def test_an_error_on_a_watch_is_a_plain_answer(site: Site) -> None:
    status, body = await site.call("GET", f"{PODS}?watch=true&resourceVersion=99999")
    assert (status, body["reason"]) == (410, "Expired")
