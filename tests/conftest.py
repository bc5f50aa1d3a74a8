"""What holds for every test."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.conformance.cases import shared_folder

# How long an example takes says something about the machine, not about the code.
settings.register_profile("bosket", deadline=None)
settings.load_profile("bosket")

# pytest-asyncio asks for the current loop before it has made one. Without this line Python 3.11 answers with a new
# loop, which nobody closes and whose collection is a warning, and so an error, in whatever test happens to run then.
asyncio.set_event_loop(None)

_CASES_NOT_RUN = "cases not run"
_HERE = Path(__file__).parent
#: Folders whose tests start whole clusters or programs, or are campaigns; `make check` leaves them out.
_SLOW_FOLDERS = frozenset(
    ("cli", "conformance", "e2e", "embedded", "examples", "foreign", "fuzz", "grove", "grove_backends", "operator")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow by its folder. Skips tests whose recorded cases are missing, and notes in their reports how
    many cases those are."""
    for item in items:
        if item.path.relative_to(_HERE).parts[0] in _SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("shared"):
            missing = [name for name in mark.args if not (shared_folder() / name).exists()]
            if missing:
                item.add_marker(pytest.mark.skip(f"{missing[0]} is missing below BOSKET_SHARED or ../shared"))
                item.user_properties.append((_CASES_NOT_RUN, mark.kwargs.get("cases", 1)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Says last, and loudly, what was not run for lack of recorded cases: green without them proves much less."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    cases = [dict(getattr(report, "user_properties", ())).get(_CASES_NOT_RUN, 0) for report in skipped]
    if any(cases):
        text = f"{sum(cases)} recorded cases were NOT RUN, in {sum(map(bool, cases))} tests"
        terminalreporter.section("no BOSKET_SHARED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{text}: {shared_folder()} lacks them. Set BOSKET_SHARED, or clone beside ../shared.")
