"""Profiles show where the CPU time of a process goes, cost little, and are bounded."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from bosket.runtime import profiler
from bosket.runtime.local_server import LocalPages, serve_local
from bosket.runtime.profile_format import as_collapsed, as_speedscope
from bosket.runtime.profile_page import add_profile_page, serve_profiles
from bosket.runtime.profiler import BEYOND, Place, Profile, take_profile


def compute(until: threading.Event, started: threading.Event) -> int:
    number = 0
    started.set()
    while not until.is_set():
        number = (number * 31 + 7) % 1_000_003
    return number


def wait(until: threading.Event, started: threading.Event) -> None:
    started.set()
    until.wait()


@contextmanager
def running(*targets: Callable[[threading.Event, threading.Event], Any]) -> Iterator[None]:
    """Each in a thread that is called as it is; all of them have begun."""
    over = threading.Event()
    begun = {each.__name__: threading.Event() for each in targets}
    threads = [threading.Thread(target=each, name=each.__name__, args=(over, begun[each.__name__])) for each in targets]
    for thread in threads:
        thread.start()
    for each in begun.values():
        each.wait()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def profiled(cpu_seconds: float = 0.5, hertz: int = 100) -> Profile:
    """A profile of so much CPU time, which takes the longer the less of it this process gets."""
    profile: list[Profile] = []
    stop = threading.Event()
    thread = threading.Thread(target=lambda: profile.append(take_profile(300.0, hertz, stop)))
    began = time.process_time()
    thread.start()
    while time.process_time() - began < cpu_seconds:
        thread.join(0.01)
    stop.set()
    thread.join()
    return profile[0]


def test_cpu_time_is_told_of_the_function_that_used_it_and_waiting_is_not() -> None:
    with running(compute, wait):
        profile = profiled()
    assert "wait" not in profile.threads
    busy = profile.threads["compute"]
    assert sum(busy.values()) / 1e9 == pytest.approx(profile.cpu_seconds, abs=0.1)
    innermost = {stack[-1].name for stack in busy}
    assert innermost <= {"compute", "Event.is_set"}
    assert {stack[0].name for stack in busy} == {"Thread._bootstrap"}


def test_looking_costs_a_small_part_of_what_is_looked_at() -> None:
    with running(compute):
        profile = profiled(hertz=100)
    assert profile.samples > 10
    # CPU time of a look, so that it is the same on a busy machine: 100 of them are a tenth of a second. Measured: less
    # than a tenth of that.
    assert profile.own_cpu_seconds < 0.001 * profile.samples


def test_a_profile_can_be_stopped() -> None:
    stop = threading.Event()
    stop.set()
    profile = take_profile(300.0, 100, stop)
    assert profile.samples == 1
    assert profile.seconds < 300.0


def test_what_is_more_than_a_profile_holds_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_MOST_STACKS", 0)
    with running(compute):
        profile = profiled(0.2)
    assert set(profile.threads["compute"]) == {BEYOND}


PROFILE = Profile(
    {"main": {(Place("a", "f", 1), Place("b", "g;h", 2)): 2_500_000, (Place("a", "f", 1),): 1_000_000}},
    samples=3,
    seconds=1.0,
)


def test_a_file_for_speedscope_has_frames_once_and_weights_by_stack() -> None:
    document = json.loads(as_speedscope(PROFILE, "scheduler"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["name"].startswith("scheduler: 0.00 s of CPU in 1.0 s, 3 samples")
    assert document["shared"]["frames"] == [
        {"name": "a.f", "file": "a", "line": 1},
        {"name": "b.g;h", "file": "b", "line": 2},
    ]
    (thread,) = document["profiles"]
    assert (thread["type"], thread["unit"], thread["name"]) == ("sampled", "microseconds", "main")
    assert (thread["samples"], thread["weights"], thread["endValue"]) == ([[0], [0, 1]], [1000, 2500], 3500)


def test_lines_for_flame_graphs_are_stacks_with_weights() -> None:
    assert as_collapsed(PROFILE, "") == b"main;a.f 1000\nmain;a.f;b.g,h 2500\n"


async def post(url: str, body: bytes) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/profile", data=body) as answer:
        return answer.status, await answer.text()


@pytest.fixture
def pages() -> LocalPages:
    made = LocalPages()
    add_profile_page(made, "test")
    return made


async def test_a_running_process_is_asked_over_http(pages: LocalPages) -> None:
    async with serve_local(pages, 0) as url:
        with running(compute):
            status, text = await post(url, b'{"seconds": 0.3}')
    assert status == 200
    assert any(each["name"] == "compute" for each in json.loads(text)["profiles"])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"seconds": 301}', "<= 300.0"),
        (b'{"seconds": 0}', "> 0.0"),
        (b'{"hertz": 1001}', "<= 1000"),
        (b'{"format": "pprof"}', "pprof"),
        (b'{"second": 1}', "unknown field"),
        (b"nonsense", "malformed"),
    ],
)
async def test_what_is_out_of_bounds_is_refused(pages: LocalPages, body: bytes, sentence: str) -> None:
    answer = await pages.answer("/profile", body)
    assert answer.status == 400
    assert sentence in answer.body.decode()


async def test_one_profile_is_taken_at_a_time(pages: LocalPages) -> None:
    first = asyncio.create_task(pages.answer("/profile", b'{"seconds": 300}'))
    await asyncio.sleep(0)
    second = await pages.answer("/profile", b"")
    assert (second.status, second.body) == (409, b"another profile is being taken\n")
    first.cancel()
    await asyncio.wait([first])
    # Whoever asked is gone, and so is what he asked for.
    assert (await pages.answer("/profile", b'{"seconds": 0.01}')).status == 200


async def test_the_page_can_be_served_alone_or_not_at_all() -> None:
    async with serve_profiles("test", None):
        pass
    async with serve_profiles("test", 0):
        pass


async def test_elsewhere_than_on_linux_it_is_said_why_not(pages: LocalPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    answer = await pages.answer("/profile", b'{"seconds": 0.01}')
    assert (answer.status, answer.body) == (
        501,
        b"CPU profiles need Linux: elsewhere nobody tells the CPU time of a thread\n",
    )
