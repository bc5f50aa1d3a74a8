"""Pages for those on the same machine: served on loopback alone, and to nobody who meant another place."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from bosket.apiserver import ApiServer
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.health import Address, serve_health
from bosket.runtime.local_server import Answer, LocalPages, serve_local
from bosket.runtime.service import Environment, run_services


async def page() -> Answer:
    return Answer(b"content", "application/zip", file_name="file.zip")


@pytest.fixture
def pages() -> LocalPages:
    made = LocalPages()
    made.add("/page", page)
    return made


async def fetch(url: str, method: str = "GET", host: str | None = None, **more: str) -> tuple[int, str, dict[str, str]]:
    headers = ({"Host": host} if host else {}) | {key.replace("_", "-"): value for key, value in more.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers) as answer,
    ):
        return answer.status, await answer.text(), dict(answer.headers)


async def test_a_page_is_served_under_its_path(pages: LocalPages) -> None:
    async with serve_local(pages, 0) as url:
        assert url.startswith("http://127.0.0.1:")
        status, text, headers = await fetch(f"{url}/page")
        assert (status, text, headers["Content-Type"]) == (200, "content", "application/zip")
        assert headers["Content-Disposition"] == "attachment; filename=file.zip"
        status, text, _ = await fetch(f"{url}/other")
        assert (status, text) == (404, "there is no /other here; there is /page\n")
        assert (await fetch(f"{url}/page", "POST"))[:2] == (405, "/page answers GET\n")


async def test_a_form_is_given_what_was_sent(pages: LocalPages) -> None:
    async def echo(posted: bytes) -> Answer:
        return Answer(posted.upper())

    pages.add_form("/form", echo)
    async with serve_local(pages, 0) as url, aiohttp.ClientSession() as session:
        async with session.post(f"{url}/form", data=b"abc") as answer:
            assert (answer.status, await answer.text()) == (200, "ABC")
        assert (await fetch(f"{url}/form"))[:2] == (405, "/form answers POST\n")
        assert (await fetch(f"{url}/other", "POST"))[:2] == (404, "there is no /other here; there is /form, /page\n")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1", 200),
        ("[::1]:8081", 200),
        ("evil.example:8081", 403),
        ("127.0.0.1.evil.example", 403),
        ("[::1].evil.example", 403),
        ("[nonsense", 403),
    ],
)
async def test_who_asks_under_another_name_gets_nothing(pages: LocalPages, host: str, status: int) -> None:
    """As when a web page has its name resolved to 127.0.0.1, to have a browser read what is here."""
    async with serve_local(pages, 0) as url:
        answered, text, _ = await fetch(f"{url}/page", host=host)
    assert answered == status
    assert ("content" in text) == (status == 200)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec_Fetch_Site": "none"}, 200),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "Cross-Site"}, 403),
        ({"Sec_Fetch_Site": ""}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://localhost"}, 403),
        ({"Origin": "", "Sec_Fetch_Site": "same-origin"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_web_page_from_elsewhere_gets_nothing_and_starts_nothing(
    pages: LocalPages, method: str, headers: dict[str, str], status: int
) -> None:
    started: list[bytes] = []

    async def form(posted: bytes) -> Answer:
        started.append(posted)
        return Answer(b"content")

    pages.add_form("/page", form)
    async with serve_local(pages, 0) as url:
        answered, text, _ = await fetch(f"{url}/page", method, **headers)
        assert (await fetch(f"{url}/page", method, Origin=url))[0] == 200, "its own pages may ask"
    assert answered == status
    assert ("content" in text) == (status == 200)
    assert len(started) == (0 if method == "GET" else 1 + (status == 200))


async def test_metrics_are_guarded_like_pages_and_by_name_only_on_loopback() -> None:
    for host, renamed in (("127.0.0.1", 403), ("0.0.0.0", 200)):
        async with serve_health(CollectorRegistry(), {}, Address(host)) as url:
            local = url.replace("0.0.0.0", "127.0.0.1")
            for path in ("metrics", "healthz", "livez", "readyz"):
                assert (await fetch(f"{local}/{path}"))[0] == 200
                assert (await fetch(f"{local}/{path}", host="pod.example:8080"))[0] == renamed
                assert (await fetch(f"{local}/{path}", Sec_Fetch_Site="cross-site"))[0] == 403
                assert (await fetch(f"{local}/{path}", Origin="https://evil.example"))[0] == 403


async def test_a_service_that_starts_anew_takes_its_path_over(pages: LocalPages) -> None:
    async def newer() -> Answer:
        return Answer(b"newer")

    async with serve_local(pages, 0) as url:
        pages.add("/page", newer)
        assert (await fetch(f"{url}/page"))[1] == "newer"


class _Idle:
    name = "idle"

    def __init__(self) -> None:
        self.runs = asyncio.Event()

    async def run(self) -> None:
        self.runs.set()
        await asyncio.Event().wait()


def _environment(pages: LocalPages) -> Environment:
    clock = SystemClock()
    client = Client(ApiServer(clock=clock).transport(), clock=clock)
    return Environment(
        client=client,
        informers=Informers(client),
        clock=clock,
        events=EventRecorder(client, clock, "test"),
        metrics=CollectorRegistry(),
        local_pages=pages,
    )


async def test_services_run_though_the_port_is_taken(pages: LocalPages, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        service = _Idle()
        running = asyncio.create_task(
            run_services(_environment(pages), [service], leader_election=False, local_port=port)
        )
        async with asyncio.timeout(120):
            await service.runs.wait()
        running.cancel()
        await asyncio.wait([running])
    assert f"port {port} can't be had, /page is not served" in caplog.text
