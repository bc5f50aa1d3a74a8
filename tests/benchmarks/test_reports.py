"""Benchmarks print what they measured, say what is missing, and fail when something isn't as promised."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.report import Column, Report, number


def report(*, broken: bool) -> Report:
    made = Report("Speed", (Column("name", "name"), Column("ms", "CPU", number(1, " ms"))))
    made.rows += [{"name": "fast", "ms": 1234.56}, {"name": "unknown", "ms": None}]
    made.expect(not broken, "it is slow")
    return made


def run(monkeypatch: pytest.MonkeyPatch, benchmark: Callable[[], Report], *arguments: str) -> int:
    monkeypatch.setattr(command, "BENCHMARKS", {"speed": benchmark})
    monkeypatch.setattr(command, "USUAL", ("speed",))
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    return command.main()


def test_figures_are_a_table_for_people(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, lambda: report(broken=False)) == 0
    lines = [line.split() for line in capsys.readouterr().out.replace("│", " ").splitlines()]
    assert ["fast", "1,234.6", "ms"] in lines
    assert ["unknown", "–"] in lines


def test_no_figure_is_cut_off_where_there_are_many(capsys: pytest.CaptureFixture[str]) -> None:
    columns = tuple(Column(f"n{i}", f"column {i}", number()) for i in range(30))
    Report("Wide", columns, rows=[{column.name: 1_234_567 for column in columns}]).print()
    assert capsys.readouterr().out.count("1,234,567") == 30


def test_figures_are_json_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, lambda: report(broken=False), "speed", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["speed"]["rows"][0] == {"name": "fast", "ms": 1234.56}


def test_a_broken_promise_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, lambda: report(broken=True)) == 1
    assert "not as promised: it is slow" in capsys.readouterr().out


def test_workloads_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import cycle

    monkeypatch.setenv("BOSKET_SHARED", str(tmp_path))
    assert run(monkeypatch, cycle.run) == 1
    assert f"{tmp_path}/perf/gen.py is missing; set BOSKET_SHARED" in capsys.readouterr().err


def test_a_benchmark_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as refused:
        run(monkeypatch, lambda: report(broken=False), "dance")
    assert refused.value.code == 2


def test_the_usual_benchmarks_are_there() -> None:
    assert set(command.USUAL) <= set(command.BENCHMARKS)
