"""`cycle`: workloads are beside Go's figures for the same call, and what was decided and what it cost is judged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import cycle
from benchmarks.cycle_case import CASES, OUTCOMES, Case, Counts
from benchmarks.growth import curves, fitted_exponent, value_at
from benchmarks.report import Report
from benchmarks.workload import Replayed

KAI = """## CPU ms of one cycle
| workload | N=100 | N=500 | N=1000 | exponent in N |
|---|---|---|---|---|
| fill | 320 | 4,700–5,100 | 16,000 | 1.9 |
| reclaim | 600 | – | 17,000 | 1.35 → 2.3 |

## Workloads as they come in practice
| workload | Go, CPU ms | Bosket, CPU ms |
|---|---|---|
| `mixed n=100 pending=400` | 52,800 (two actions cut) | 14,000 |
"""


def replayed(total_ms: float, *, binds: int = 0, evictions: int = 0, pipelined: int = 0, pods: int = 800) -> Replayed:
    cpu_ms = {"open": total_ms / 4, "allocate": total_ms / 2, "total": total_ms}
    return Replayed(pods, binds, evictions, pipelined, cpu_ms, peak_rss_mb=100.0)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "kai.md").write_text(KAI)
    (tmp_path / "perf" / "gen.py").write_text("import sys; open(sys.argv[-1], 'w').write(' '.join(sys.argv[1:-1]))")
    (tmp_path / "perf" / "nasty.py").write_text((tmp_path / "perf" / "gen.py").read_text())
    monkeypatch.setenv("BOSKET_SHARED", str(tmp_path))
    return tmp_path


def measured(monkeypatch: pytest.MonkeyPatch, cases: tuple[Case, ...], *found: Replayed) -> Report:
    answers = iter(found)
    monkeypatch.setattr(cycle, "CASES", cases)
    monkeypatch.setattr(cycle, "_cheapest", lambda file: next(answers))
    return cycle.run()


def test_a_cycle_is_beside_what_go_took_at_the_same_size(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = measured(monkeypatch, (Case("fill", "fill", 500, go_row="fill"),), replayed(100, binds=4000, pods=4000))
    [row] = report.rows
    assert (row["go_text"], row["times_less"]) == ("4,700–5,100", 47.0)
    assert (row["open_ms"], row["allocate_ms"], row["searches_ms"], row["us_per_pod"]) == (25, 50, 25, 25)
    assert report.broken == []


def test_a_workload_in_practice_is_beside_the_same_call(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(each for each in CASES if (each.kind, each.nodes) == ("mixed", 100))
    [row] = measured(monkeypatch, (case,), replayed(528)).rows
    assert (row["go_text"], row["times_less"]) == ("52,800", 100.0)


def test_less_than_promised_beside_go_is_told(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("fill", "fill", 100, go_row="fill", least_ratio=15)
    assert measured(monkeypatch, (case,), replayed(20, binds=800)).broken == []
    assert measured(monkeypatch, (case,), replayed(32, binds=800)).broken == [
        "fill, 100 nodes: 10.0 times less CPU than the Go scheduler, 15 are promised"
    ]


def test_more_time_than_promised_is_told(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("mixed", "mixed", 100, "nasty.py", most_ms=1000)
    assert measured(monkeypatch, (case,), replayed(999)).broken == []
    assert measured(monkeypatch, (case,), replayed(1001)).broken == [
        "mixed, 100 nodes: 1,001 ms of CPU, 1,000 are promised"
    ]


def test_other_decisions_than_expected_are_told(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("reclaim", "reclaim", 100, go_row="reclaim")
    assert measured(monkeypatch, (case,), replayed(10, evictions=400, pipelined=400)).broken == []
    [told] = measured(monkeypatch, (case,), replayed(10, evictions=400, pipelined=399)).broken
    assert told == "reclaim, 100 nodes: 0 binds, 400 evictions, 399 pipelined; half the cluster should move"


def test_costs_that_grow_faster_than_nodes_are_told(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = tuple(Case("fill", "fill", nodes, go_row="fill") for nodes in (100, 1000))
    linear = measured(monkeypatch, cases, replayed(10, binds=800), replayed(100, binds=8000))
    assert linear.broken == []
    [growth] = linear.details
    assert growth.rows == [
        {"workload": "fill", "sizes": "100 – 1,000", "exponent": pytest.approx(1), "go_exponent": "1.9"}
    ]
    worse = measured(monkeypatch, cases, replayed(10, binds=800), replayed(200, binds=8000))
    assert worse.broken == ["fill: exponent 1.30, 1.1 is promised"]


def test_only_some_workloads_are_measured_when_asked_to(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "CASES", (Case("fill", "fill", 100), Case("dra", "dra", 100, "nasty.py")))
    monkeypatch.setattr(cycle, "_cheapest", lambda file: replayed(10, binds=800))
    assert [row["workload"] for row in cycle.run(["dra"]).rows] == ["dra"]


def test_cheap_cycles_are_repeated_and_expensive_ones_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def replay(file: Path, repeat: int = 1, *, costs: float) -> Replayed:
        asked.append(repeat)
        return replayed(costs if len(asked) == 1 else costs - 1)

    monkeypatch.setattr(cycle, "replay", lambda file, repeat=1: replay(file, repeat, costs=1000))
    assert cycle._cheapest(tmp_path).cpu_ms["total"] == 999
    assert asked == [1, 3]
    asked.clear()
    monkeypatch.setattr(cycle, "replay", lambda file, repeat=1: replay(file, repeat, costs=2000))
    assert cycle._cheapest(tmp_path).cpu_ms["total"] == 2000
    assert asked == [1]


def test_every_size_of_a_workload_is_measured_once() -> None:
    twice = [name for name, count in Counter(case.title for case in CASES).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("fill", Counts(800, 0, 0), Counts(799, 0, 0)),
        ("frac", Counts(3200, 0, 0), Counts(800, 0, 0)),
        ("consolidate", Counts(0, 4, 8), Counts(0, 4, 7)),
        ("backlog", Counts(0, 0, 0), Counts(0, 1, 0)),
    ],
)
def test_what_must_be_decided(kind: str, right: Counts, wrong: Counts) -> None:
    assert OUTCOMES[kind].holds(right, 100)
    assert not OUTCOMES[kind].holds(wrong, 100)


def test_an_exponent_is_the_slope_in_logarithms() -> None:
    assert fitted_exponent({100: 1.0, 1000: 100.0}) == pytest.approx(2)
    assert fitted_exponent({100: 5.0, 500: 5.0, 1000: 5.0}) == pytest.approx(0)


def test_values_between_sizes_and_beyond_follow_their_neighbours() -> None:
    curve = {100: 1.0, 1000: 10.0, 2000: 40.0}
    assert value_at(curve, 500) == pytest.approx(5)
    assert value_at(curve, 1000) == pytest.approx(10)
    assert value_at(curve, 4000) == pytest.approx(160), "beyond the largest: by the last two"
    assert value_at(curve, 50) == pytest.approx(0.5)


def test_curves_are_rows_of_one_workload() -> None:
    rows = json.loads('[{"workload": "a", "nodes": 1, "ms": 2}, {"workload": "a", "nodes": 3, "ms": 4}]')
    assert curves(rows, "ms") == {"a": {1: 2, 3: 4}}
