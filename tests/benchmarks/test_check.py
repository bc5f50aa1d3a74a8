"""`check` fails when a workload became slower, measured by a loop of the same run, and says which, then and now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from benchmarks import check, check_workload
from benchmarks.calibration import work
from benchmarks.check import measure
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.cluster import pipelines, snapshot_of


def fake(monkeypatch: pytest.MonkeyPatch, *, loop_ms: float = 10.0, **costs_ms: float) -> None:
    """Measurements that always give these."""
    made: dict[str, Callable[[], float]] = {name: partial(float, cost) for name, cost in costs_ms.items()}
    monkeypatch.setattr(check, "workloads", lambda: made)
    monkeypatch.setattr(check, "measure", lambda workloads: measure(workloads, lambda: loop_ms))


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    file = tmp_path / "check.json"
    file.write_text(json.dumps({"gangs": 2.0, "reclaim": 5.0}))
    return file


def test_what_is_as_fast_as_committed_passes(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, gangs=20, reclaim=50)
    report = check.run(file=committed)
    assert report.broken == []
    assert [row["quotient"] for row in report.rows] == [1.0, 1.0]


def test_what_is_slower_fails_by_name_with_both_ratios(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, gangs=29, reclaim=80)
    assert check.run(file=committed).broken == [
        "reclaim: ratio 5.00 then, 8.00 now: 1.60 times as slow as committed, 1.5 are allowed"
    ]


def test_a_slower_machine_is_no_slower_code(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, loop_ms=30, gangs=60, reclaim=150)
    assert check.run(file=committed).broken == []


def test_what_became_faster_is_told_and_passes(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, gangs=20, reclaim=10)
    report = check.run(file=committed)
    assert report.broken == []
    assert "reclaim: 5.00 times as fast as committed; `--update` keeps it so." in report.notes


def test_an_update_commits_to_the_ratios_of_the_run(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, gangs=100, claims=7)
    assert check.run(update=True, file=committed).broken == []
    assert json.loads(committed.read_text()) == {"gangs": 10.0, "claims": 0.7}
    assert check.run(file=committed).broken == []


def test_nothing_is_left_uncompared(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    fake(monkeypatch, gangs=20, claims=7)
    assert check.run(file=committed).broken == [
        "claims: no ratio is committed; `--update` commits to 0.70",
        "reclaim: committed, but not measured",
    ]


def test_interruptions_count_for_nothing_unless_they_hit_every_round() -> None:
    disturbed: Iterator[float] = cycle([90.0, 31.0, 30.0])
    busy: Iterator[float] = cycle([12.0, 10.0, 25.0])
    least, loop_ms = measure({"gangs": lambda: next(disturbed)}, lambda: next(busy))
    assert (least, loop_ms) == ({"gangs": 30.0}, 10.0)


def test_what_seems_slower_is_measured_once_more(monkeypatch: pytest.MonkeyPatch, committed: Path) -> None:
    costs = iter([90.0] * check.ROUNDS + [52.0] * check.ROUNDS)
    fake(monkeypatch, gangs=20)
    monkeypatch.setattr(check, "workloads", lambda: {"gangs": lambda: 20.0, "reclaim": lambda: next(costs)})
    report = check.run(file=committed)
    assert report.broken == []
    assert [row["now"] for row in report.rows] == [2.0, 5.2]


def test_the_loop_runs_beside_every_measurement() -> None:
    order: list[str] = []

    def noted(name: str) -> float:
        order.append(name)
        return 1.0

    measure({"a": lambda: noted("a"), "b": lambda: noted("b")}, lambda: noted("loop"))
    assert order == ["loop", *["a", "loop", "b", "loop"] * check.ROUNDS]


def test_every_workload_has_a_committed_ratio() -> None:
    names = {*check_workload.DECIDED, "opening", "an event and its cycle"}
    assert set(json.loads(check.FILE.read_text())) == names


@pytest.mark.parametrize(
    ("name", "binds", "evictions", "pipelined"),
    [
        ("gangs", 1600, 0, 0),
        ("single pods", 960, 0, 0),
        ("fractions", 1280, 0, 0),
        ("racks", 1280, 0, 0),
        ("claims", 800, 0, 0),
        ("neighbours", 768, 0, 0),
        ("reclaim", 0, 800, 800),
        ("consolidation", 0, 4, 8),
    ],
)
def test_a_workload_does_what_it_is_named_after(name: str, binds: int, evictions: int, pipelined: int) -> None:
    """A ratio is worth nothing if the cluster is refused, or empty."""
    decisions = decide(snapshot_of(check_workload.DECIDED[name]()), Configuration())
    assert (len(decisions.binds), len(decisions.evictions), len(pipelines(decisions))) == (binds, evictions, pipelined)


def test_the_contended_cluster_is_searched_for_victims() -> None:
    decisions = decide(snapshot_of(check_workload.contended()), Configuration())
    assert decisions.binds
    assert decisions.evictions
    assert pipelines(decisions)


def test_the_clusters_are_the_same_every_time() -> None:
    first, again = (decide(snapshot_of(check_workload.shapes()), Configuration()) for _ in range(2))
    assert [(bind.task.key, bind.node) for bind in first.binds] == [(bind.task.key, bind.node) for bind in again.binds]


def test_the_calibration_loop_stays_as_it_is() -> None:
    """Committed ratios rest on it: whoever changes it has to renew all of them."""
    assert work() == 960
