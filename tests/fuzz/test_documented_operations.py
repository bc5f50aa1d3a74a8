"""Every operation that the server's own OpenAPI lists, asked by schemathesis: with what it allows, and what it doesn't.

Bounded in time: less than a minute, or what BOSKET_FUZZ_SECONDS says, and then in another order each time. A minute is not
enough for all of them; `test_every_path.py` asks all, with less imagination.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.core import NotSet

from tests.fuzz.fuzzed import Fuzzed, budget_seconds, chance, resident_mebibytes

#: What a body of this many bytes describes takes schemathesis long to break in all ways.
_LARGE = 20_000
_GROWTH_MEBIBYTES = 400


@pytest.fixture
def fuzzed() -> Iterator[Fuzzed]:
    found = Fuzzed()
    found.teach()
    yield found
    found.close()


def operations(fuzzed: Fuzzed) -> Iterator[tuple[Any, list[GenerationMode]]]:
    for place in fuzzed.read("/openapi/v3")["paths"]:
        document = fuzzed.read(f"/openapi/v3/{place}")
        document["openapi"] = "3.0.0"
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = found.ok()
            wrong = operation.method.upper() in ("GET", "PATCH") or len(json.dumps(document["components"])) < _LARGE
            yield operation, [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if wrong else [])]


def asker(fuzzed: Fuzzed, operation: Any, mode: GenerationMode, examples: int) -> Callable[[], None]:
    """Asks a few examples of an operation, each time others."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        ask_one(fuzzed, case)

    return ask


def ask_one(fuzzed: Fuzzed, case: Any) -> None:
    if case.path_parameters is not None and "namespace" in case.path_parameters:
        case.path_parameters["namespace"] = "default"  # elsewhere, everything is not found
    body = case.body
    if isinstance(body, NotSet):
        raw = b""
    elif isinstance(body, bytes):
        raw = body
    else:
        if isinstance(body, dict) and isinstance(body.setdefault("metadata", {}), dict) and case.method == "POST":
            body["metadata"]["name"] = "fuzz"
        raw = json.dumps(body, default=str).encode("utf-8", "surrogatepass")
    headers = {str(key): str(value) for key, value in (case.headers or {}).items()}
    query = {str(key): value for key, value in (case.query or {}).items()}
    fuzzed.ask(case.method, case.formatted_path, raw, case.media_type or "application/json", query, headers)


def test_no_documented_operation_makes_the_server_fail(fuzzed: Fuzzed) -> None:
    before, end = resident_mebibytes(), monotonic() + budget_seconds(45)
    waiting = [(operation, mode) for operation, modes in operations(fuzzed) for mode in modes]
    chance().shuffle(waiting)
    askers: dict[int, Callable[[], None]] = {}
    covered, examples = 0, 2
    while monotonic() < end:
        for number, (operation, mode) in enumerate(waiting):
            if monotonic() > end:
                break
            if number not in askers or examples > 2:
                askers[number] = asker(fuzzed, operation, mode, examples)
            askers[number]()
            covered = max(covered, number + 1)
        examples *= 2
    print(f"{fuzzed.asked} requests, {covered} of {len(waiting)} operations and modes")
    assert fuzzed.ask("GET", "/api/v1/namespaces/default") == 200
    assert resident_mebibytes() - before < _GROWTH_MEBIBYTES
