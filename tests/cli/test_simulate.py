"""`bosket simulate`: requests and scenarios in, shares, tables and charts out."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path

import aiohttp
import pytest

from bosket.cli.main import main

REQUEST = {
    "totalResource": {"GPU": 10},
    "queues": [
        {"uid": "a", "resourceShare": {"gpu": {"usage": 0.6}}},
        {"uid": "b", "resourceShare": {"gpu": {"usage": 0.4}}},
    ],
}
SCENARIO = """
Cycles: 30
WindowSize: 10
Nodes: [{GPUs: 2}]
Queues: [{Name: top}, {Name: a, Parent: top}, {Name: b, Parent: top}]
Jobs: {a: {GPUs: 2, NumJobs: 5}, b: {GPUs: 2, NumJobs: 5}}
"""


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    return file


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    return file


class Stdin:
    def __init__(self, text: str) -> None:
        self.buffer = io.BytesIO(text.encode())


def test_in_a_pipe_fair_shares_are_kais_answer(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "fairshare", str(request_file)]) == 0
    assert capsys.readouterr().out == '{"a":{"gpu":4,"cpu":0,"memory":0},"b":{"gpu":6,"cpu":0,"memory":0}}\n'
    assert main(["simulate", "fairshare", str(request_file), "--k", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["gpu"] == 5


def test_requests_come_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(json.dumps(REQUEST)))
    assert main(["simulate", "fairshare"]) == 0
    assert json.loads(capsys.readouterr().out)["b"]["gpu"] == 6
    monkeypatch.setattr(sys, "stdin", Stdin("{"))
    assert main(["simulate", "fairshare", "-"]) == 2
    assert capsys.readouterr().err.startswith("bosket: standard input: not a JSON document")


def test_on_a_terminal_fair_shares_are_a_table(
    request_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["simulate", "fairshare", str(request_file)]) == 0
    printed = capsys.readouterr().out
    assert "Fair share, k = 1" in printed
    assert "│" in printed
    assert main(["simulate", "fairshare", str(request_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["gpu"] == 4


async def test_fair_shares_are_served_on_this_machine() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bosket.cli.main", "simulate", "fairshare", "--serve", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            ready = (await process.stdout.readline()).decode()
            url = ready.removeprefix("ready: POST ").strip()
            assert url.startswith("http://127.0.0.1:")
            async with aiohttp.ClientSession() as session:
                async with session.post(url, json=REQUEST) as answer:
                    assert (answer.status, (await answer.json())["b"]["gpu"]) == (200, 6)
                async with session.post(url, data=b'{"queues": 3}') as answer:
                    assert (answer.status, await answer.text()) == (400, "queues must be a list, it is int\n")
                async with session.get(url) as answer:
                    assert answer.status == 405
            process.terminate()
            assert await process.wait() == 0
            await process.stdout.read()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_in_a_pipe_a_simulation_is_csv(scenario_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "time", str(scenario_file)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "Time,QueueID,Allocation,FairShare"
    assert lines[1:4] == ["0,top,2.000000,2.000000", "0,a,2.000000,1.000000", "0,b,0.000000,1.000000"]
    assert len(lines) == 1 + 30 * 3
    assert captured.err == ""  # no progress bar where nobody looks


def test_csv_and_chart_go_into_files(scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "time", str(scenario_file), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("Time,QueueID")
    table, chart = tmp_path / "points.csv", tmp_path / "chart.svg"
    assert main(["simulate", "time", str(scenario_file), "-o", str(table), "--chart", str(chart)]) == 0
    assert capsys.readouterr().out == ""
    assert table.read_text().count("\n") == 91
    assert "2 GPUs over 30 cycles: k = 1, window 10" in chart.read_text()
    assert ">top<" not in chart.read_text()  # only queues that hold jobs


def test_on_a_terminal_a_simulation_is_summed_up(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["simulate", "time", str(scenario_file)]) == 0
    printed = capsys.readouterr().out
    assert "30 cycles, k = 1: means" in printed
    assert "Time,QueueID" not in printed


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--bogus"], 2, "Unknown option: --bogus"),
        (["none.yaml"], 2, "none.yaml: can't read it: No such file or directory"),
        (["{scenario}", "--chart", "x.png"], 2, "--chart x.png: charts are drawn as SVG"),
        (["{scenario}", "--output", "/nowhere/x.csv"], 2, "--output /nowhere/x.csv: can't write it"),
        (["{scenario}", "--chart", "/nowhere/x.svg"], 2, "--chart /nowhere/x.svg: can't write it"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: list[str], code: int, sentence: str, scenario_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [each.replace("{scenario}", str(scenario_file)) for each in arguments]
    assert main(["simulate", "time", *given]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"bosket: {sentence}")
    assert captured.err.count("\n") == 1


def test_a_scenario_that_makes_no_sense_is_refused_by_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text("Cycles: 0")
    assert main(["simulate", "time", str(file)]) == 2
    assert capsys.readouterr().err == f"bosket: {file}: Cycles is 0, it must be 1 or more\n"
    file.write_bytes(b"\xff")
    assert main(["simulate", "time", str(file)]) == 2
    assert capsys.readouterr().err == f"bosket: {file}: not UTF-8\n"


def test_the_examples_work(capsys: pytest.CaptureFixture[str]) -> None:
    examples = Path(__file__).parents[2] / "examples" / "simulate"
    assert main(["simulate", "fairshare", str(examples / "request.json")]) == 0
    shares = json.loads(capsys.readouterr().out)
    assert (shares["research"]["gpu"], shares["product"]["gpu"]) == (58, 42)
