"""Every operation that the server's own OpenAPI lists, asked by schemathesis: with what it allows, and what it doesn't.

Bounded in time: less than a minute, or what BOSKET_FUZZ_SECONDS says, and then in another order each time. That may not
be enough for all of them; `test_every_path.py` asks all, with less imagination.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.core import NotSet
from schemathesis.core.result import Ok

from tests.fuzz.fuzzed import Fuzzed, budget_seconds, chance, resident_mebibytes

#: How deep schemas are followed.
_DEPTH = 2
#: Operations of one document before another has its turn.
_IN_A_TURN = 5
_GROWTH_MEBIBYTES = 400


@pytest.fixture
def fuzzed() -> Iterator[Fuzzed]:
    found = Fuzzed()
    found.teach()
    yield found
    found.close()


def operations(fuzzed: Fuzzed, rng: random.Random) -> Iterator[tuple[Any, GenerationMode]]:
    """All of them, from one document after the other: documents are large, and the time may be up before the last."""
    places = list(fuzzed.read("/openapi/v3")["paths"])
    rng.shuffle(places)
    waiting = [in_document(fuzzed, place) for place in places]
    while waiting:
        turn = waiting.pop(0)
        found = list(itertools.islice(turn, _IN_A_TURN))
        yield from found
        if found:
            waiting.append(turn)


def in_document(fuzzed: Fuzzed, place: str) -> Iterator[tuple[Any, GenerationMode]]:
    document = fuzzed.read(f"/openapi/v3/{place}")
    schemas = document.pop("components")["schemas"]
    document["paths"] = shallow(document["paths"], schemas, _DEPTH)
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok(), GenerationMode.POSITIVE
        yield found.ok(), GenerationMode.NEGATIVE


def shallow(value: Any, schemas: dict[str, Any], depth: int) -> Any:
    """The same with references written out, down to a depth; below, anything goes. Whole pods take too long to make."""
    if isinstance(value, list):
        return [shallow(each, schemas, depth) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return shallow(schemas[name], schemas, depth - 1) if depth else {}
    return {key: shallow(each, schemas, depth) for key, each in value.items() if not key.startswith("x-kubernetes-")}


def ask_some(fuzzed: Fuzzed, operation: Any, mode: GenerationMode, examples: int) -> None:
    """Ask a few examples of an operation, each time others."""

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

    ask()


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
    before, end, rng = resident_mebibytes(), monotonic() + budget_seconds(45), chance()
    covered = rounds = 0
    while monotonic() < end:
        for operation, mode in operations(fuzzed, rng):
            if monotonic() > end:
                break
            ask_some(fuzzed, operation, mode, 4 << rounds)
            covered += 1
        rounds += 1
    print(f"{fuzzed.asked} requests, {covered} operations and modes, in round {rounds}")
    assert fuzzed.ask("GET", "/api/v1/namespaces/default") == 200
    assert resident_mebibytes() - before < _GROWTH_MEBIBYTES
