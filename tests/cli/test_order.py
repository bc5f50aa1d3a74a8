"""`bosket order`: whose turn it is, why, and what comes of it in this cycle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bosket.api.object import KubeObject
from bosket.cli.main import main
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import job, node, priority_class, queue
from bosket.testing.cluster import NOW, configured, snapshot_of
from tests.cli.everyday import LONG, as_terminal, printed, recorded


def turns(folder: Path, capsys: pytest.CaptureFixture[str], *objects: KubeObject) -> list[dict[str, Any]]:
    report = json.loads(printed(capsys, "order", "--snapshot", recorded(folder, objects), "--json"))
    found: list[dict[str, Any]] = report["turns"]
    return found


def full(*queues: KubeObject) -> list[KubeObject]:
    """One node whose GPUs nobody gets: all of them are held by a job of a queue of its own."""
    return [*queues, queue("other"), node("n", gpus=8), *job("holds", gpus=8, on="n", queue="other", priority="high")]


HIGH, LOW = priority_class("high", 200), priority_class("low", 10)


def test_in_a_queue_priority_goes_before_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = turns(
        tmp_path, capsys, HIGH, LOW, *full(queue("q")),
        *job("old", priority="low", created=NOW - 900), *job("older", priority="low", created=NOW - 1000),
        *job("urgent", priority="high", created=NOW - 5),
    )  # fmt: skip
    assert [(each["number"], each["name"]) for each in found] == [(1, "urgent"), (2, "older"), (3, "old")]
    assert [each["why"] for each in found] == [
        "its priority is 200, that of the next 10",
        "it has waited longer than the next",
        "",
    ]


def test_queues_take_turns_by_what_each_would_come_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = turns(
        tmp_path, capsys, HIGH, *full(queue("a", quota=2), queue("b", quota=2)),
        *(each for name in ("a-1", "a-2", "a-3") for each in job(name, gpus=1, queue="a", created=NOW - 900)),
        *(each for name in ("b-1", "b-2", "b-3") for each in job(name, gpus=1, queue="b", created=NOW - 5)),
    )  # fmt: skip
    assert [each["queue"] for each in found[:4]] in (["a", "b", "a", "b"], ["b", "a", "b", "a"]), "one after the other"
    assert {each["queue"] for each in found[4:]} == {"a", "b"}
    assert all("fair share" in each["why"] or "alike" in each["why"] or "quota" in each["why"] for each in found[:3])


def test_a_queue_of_higher_priority_goes_first_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = turns(
        tmp_path, capsys, HIGH, *full(queue("a", quota=0, priority=100), queue("b", quota=0, priority=200)),
        *job("of-a", queue="a"), *job("of-b", queue="b"),
    )  # fmt: skip
    assert [each["name"] for each in found] == ["of-b", "of-a"]
    assert found[0]["why"] == "queue priority of b is 200, that of a 100"


def test_what_comes_of_each_turn_is_what_decide_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [queue("q"), node("n", gpus=2), *job("fits", gpus=2, created=1.0), *job("late", gpus=1, created=2.0)]
    found = {each["name"]: each for each in turns(tmp_path, capsys, *objects)}
    decisions = decide(snapshot_of(objects), Configuration())
    assert {bind.job.key.name for bind in decisions.binds} == {"fits"}
    assert (found["fits"]["outcome"], found["late"]["outcome"]) == ("starts", "waits")
    assert "needs 1 GPU" in found["late"]["sentence"]


def test_the_order_is_that_in_which_jobs_start_as_room_comes_free() -> None:
    """Room for one after the other: each time the job that starts is the next in line."""
    from bosket.scheduler.answers.turn_order import turn_order

    queues = [queue("a", quota=2), queue("b", quota=4)]
    jobs = {name: job(name, queue=name[0]) for name in ("a-1", "a-2", "b-1", "b-2", "b-3", "b-4")}
    waiting = [each for objects in jobs.values() for each in objects]
    configuration = configured("allocate")
    snapshot = snapshot_of(queues, node("n", gpus=0), waiting)
    line = [each.name for each in turn_order(snapshot, configuration, decide(snapshot, configuration))]
    for room in range(1, len(jobs) + 1):
        started = decide(snapshot_of(queues, node("n", gpus=room), waiting), configuration).binds
        assert {bind.job.key.name for bind in started} == set(line[:room])


def test_one_queue_keeps_its_numbers_in_the_whole_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path)
    everybody = json.loads(printed(capsys, "order", "--snapshot", file, "--json"))["turns"]
    numbers = {each["name"]: each["number"] for each in everybody}
    of_vision = json.loads(printed(capsys, "order", "vision", "--snapshot", file, "--json"))["turns"]
    assert {each["name"]: each["number"] for each in of_vision} == {
        name: number for name, number in numbers.items() if name in ("segment", "depth")
    }
    assert main(["order", "oracle", "--snapshot", file]) == 1
    assert "there is no queue oracle" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 160])
def test_the_line_fits_the_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, columns, colour=False)
    text = printed(capsys, "order", "--snapshot", recorded(tmp_path))
    assert max(map(len, text.splitlines())) <= columns
    assert f"default/{LONG}" in text
    assert "before the next: " in text
