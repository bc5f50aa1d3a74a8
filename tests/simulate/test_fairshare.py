"""The fair-share simulator takes KAI's requests, and divides as the scheduler does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bosket.tools.simulate.document import InvalidDocument
from bosket.tools.simulate.fairshare import simulate


def queue(uid: str, parent: str = "", *, priority: int = 0, **gpu: float) -> dict[str, Any]:
    share = {"resourceShare": {"gpu": gpu}} if gpu else {}
    return {"uid": uid, "priority": priority, **({"parentQueue": parent} if parent else {}), **share}


def shares(*queues: dict[str, Any], gpus: float = 100, k: float = 1.0) -> dict[str, float]:
    request = {"totalResource": {"GPU": gpus}, "queues": list(queues)}
    return {uid: share["gpu"] for uid, share in simulate(json.dumps(request).encode(), k, fail).items()}


def fail(problem: str) -> None:
    raise AssertionError(problem)


def test_the_example_of_kais_tool_has_kais_answer() -> None:
    request = {
        "totalResource": {"GPU": 100, "CPU": 16000, "Memory": 32000000},
        "queues": [
            {**queue("queue1", deserved=10, request=100, overQuotaWeight=3), "name": "test-queue"},
            {**queue("queue2", deserved=10, request=100, overQuotaWeight=1), "name": "test-queue2"},
        ],
    }
    answer = simulate(json.dumps(request).encode(), 1.0, fail)
    assert answer == {
        "queue1": {"gpu": 70, "cpu": 16000, "memory": 100000},
        "queue2": {"gpu": 30, "cpu": 16000, "memory": 100000},
    }


def test_what_is_left_out_is_as_in_kais_tool() -> None:
    """No quota of GPUs, all of CPU and memory unless they are mentioned, no limit, weight 1, and a large request."""
    assert shares({"uid": "a"}, {"uid": "b"}, queue("c", maxAllowed=10)) == {"a": 45, "b": 45, "c": 10}
    request = b'{"totalResource": {"CPU": 9}, "queues": [{"uid": "a", "resourceShare": {"cpu": {}}}, {"uid": "b"}]}'
    answer = simulate(request, 1.0, fail)
    assert (answer["a"]["cpu"], answer["b"]["cpu"]) == (0, 9)


def test_of_equals_who_stands_first_in_the_list_has_the_odd_one() -> None:
    assert shares({"uid": "z"}, {"uid": "a"}, gpus=3) == {"z": 2, "a": 1}
    older = {"uid": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert shares({"uid": "z"}, older, gpus=3) == {"z": 1, "a": 2}


@pytest.mark.parametrize(("k", "expected"), [(0, (5, 5)), (1, (4, 6)), (5, (0, 10))])
def test_usage_counts_by_k(k: int, expected: tuple[int, ...]) -> None:
    found = shares(queue("a", usage=0.6), queue("b", usage=0.4), gpus=10, k=k)
    assert (found["a"], found["b"]) == expected


def test_queues_form_a_tree_of_any_depth() -> None:
    found = shares(
        queue("x", deserved=60),
        queue("y"),
        queue("x1", "x", request=10),
        queue("x2", "x"),
        queue("x2a", "x2", overQuotaWeight=3),
        queue("x2b", "x2"),
        queue("y1", "y", request=5),
    )
    # y wants no more than what its one child wants.
    assert found == {"x": 95, "y": 5, "x1": 10, "x2": 85, "x2a": 64, "x2b": 21, "y1": 5}


def test_higher_priority_goes_first() -> None:
    assert shares(queue("a", priority=1, request=70), queue("b")) == {"a": 70, "b": 30}


def test_keys_may_be_written_large_or_small_and_nulls_are_nothing() -> None:
    request = b'{"TotalResource": {"gpu": 4}, "Queues": [{"UID": "a", "priority": null, "resourceShare": {"GPU": {}}}]}'
    assert simulate(request, 1.0, fail)["a"]["gpu"] == 4


def test_keys_that_nobody_knows_are_reported() -> None:
    said: list[str] = []
    simulate(b'{"total": 1, "queues": [{"uid": "a", "resourceShare": {"gpu": {"quota": 1}}}]}', 1.0, said.append)
    assert said == ["total has no effect", "queues[0].resourceShare.gpu.quota has no effect"]


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ("[", "not a JSON document"),
        ("[]", "the document must be a map, it is list"),
        ('{"queues": {}}', "queues must be a list, it is dict"),
        ('{"totalResource": {"GPU": -1}}', "totalResource.gpu is -1, it must be 0 or more"),
        ('{"queues": [{}]}', "queues[0]: Object missing required field `uid`"),
        ('{"queues": [{"uid": "a"}, {"uid": "a"}]}', "queues[1].uid is 'a', each queue must have its own"),
        ('{"queues": [{"uid": "a", "priority": "high"}]}', "queues[0].priority: Expected `int`, got `str`"),
        ('{"queues": [{"uid": "a", "resourceShare": 3}]}', "queues[0].resourceShare must be a map, it is int"),
        (
            '{"queues": [{"uid": "a", "resourceShare": {"gpu": {"request": -3}}}]}',
            "queues[0].resourceShare.gpu.request is -3, it must be 0 or more",
        ),
        (
            '{"queues": [{"uid": "a", "creationTimestamp": "once"}]}',
            "queues[0].creationTimestamp: 'once' is not a time",
        ),
        ('{"queues": [{"uid": "a", "parentQueue": "b"}]}', "queue a: Queue 'a' can't be used: its parent queue 'b'"),
        (
            '{"queues": [{"uid": "a", "parentQueue": "a"}]}',
            "queue a: Queue 'a' can't be used: its parents form a circle",
        ),
    ],
)
def test_what_is_wrong_is_named(request_: str, complaint: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        simulate(request_.encode(), 1.0, fail)
    assert str(error.value).startswith(complaint)
