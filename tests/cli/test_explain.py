"""`bosket explain`: its JSON is the contract's, its text is for people, and it needs no more than a snapshot file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import convert, to_builtins

from bosket.api.kai import PodGroup
from bosket.cli.explanation_text import print_explanation
from bosket.cli.main import main
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import explain_as_written
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import NOW, state_of
from tests.cli.everyday import HOSTILE, as_terminal, controls, printed, recorded

CONTRACT = {
    "job": dict,
    "verdict": str,
    "sentence": str,
    "reason": dict,
    "position": dict,
    "nodes": list,
    "tried": list,
    "blockers": list,
    "changes": list,
    "complete": bool,
    "snapshotDigest": str,
    "decides": int,
    "cpu_ms": float,
}


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A full node, and two jobs that wait for it: one that fits, and one that is too large for any."""
    objects = [
        queue("q", limit=12),
        node("n"),
        *job("busy", gpus=6, on="n", preemptibility="non-preemptible"),
        *job("waits", gpus=4),
        *job("large", gpus=9),
    ]
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state_of(objects), StateOptions(), Configuration(), NOW)))
    return str(file)


def test_the_json_is_the_contract(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "waits", "--snapshot", snapshot, "--json", "--seconds", "30"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {name: type(answer[name]) for name in CONTRACT} == CONTRACT
    assert answer["job"].items() >= {"namespace": "default", "name": "waits", "queue": "q", "state": "pending"}.items()
    assert answer["verdict"] == "not-now"
    assert answer["reason"].items() >= {"resource": "gpu", "need": 4.0}.items()
    assert answer["nodes"] == [
        {"reason": "didn't have enough resources: GPUs", "count": 1, "candidate": True, "examples": ["n"]}
    ]
    assert [each["action"] for each in answer["tried"]] == ["allocate", "consolidation", "reclaim", "preempt"]
    for change in answer["changes"]:
        assert change["actor"] in ("user", "queue-admin", "cluster-admin", "time")
        assert change["verified"] is True
        assert change["stepLessFails"] in (True, None)
        assert set(change["then"]) >= {"starts", "nodes", "evicts"}
        for patch in change["patch"]:
            assert set(patch["object"]) >= {"apiVersion", "kind", "name"}
            assert patch["ops"]


def test_why_is_the_same_command(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "default/large", "--snapshot", snapshot]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == (
        "default/large could not start even on an empty cluster: needs 9 GPUs on one node; the largest has 8"
    )
    assert "ask for 8 instead of 9 GPUs per pod" not in told  # 6 of the 8 are held by others
    assert "ask for 2 instead of 9 GPUs per pod (you)" in told


def test_all_jobs_are_grouped_by_reason(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--all", "--snapshot", snapshot, "--json", "--seconds", "30"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["jobs"] == 2
    assert sum(group["count"] for group in answer["groups"]) == 2
    assert answer["unblocks_most"]["starts"]
    assert main(["explain", "--all", "--queue", "q", "--snapshot", snapshot]) == 0
    assert "default/large (never, as things are): needs 9 GPUs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint", "code"),
    [
        ([], "--all", 2),
        (["waits", "--all"], "--all", 2),
        (["a/b/c"], "isn't a name", 2),
        (["wait"], "there is default/waits", 1),
        (["--all", "--queue", "nobodys"], "there is no queue nobodys", 1),
        (["waits", "--queue", "q"], "--queue is for --all", 2),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    snapshot: str, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str, code: int
) -> None:
    assert main(["explain", *arguments, "--snapshot", snapshot]) == code
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_terminal_nothing_is_cut_off(snapshot: str, columns: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns), "FORCE_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "bosket.cli.main", "explain", "waits", "--snapshot", snapshot]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "…" not in told
    assert "\x1b[" in told
    plain = subprocess.run(
        command, env={**environment, "NO_COLOR": "1"}, capture_output=True, text=True, check=True
    ).stdout
    lines = plain.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert all(len(line) <= columns for line in lines if not line.lstrip().startswith("kubectl "))


@pytest.mark.parametrize("job_or_all", ["pair", "--all"])
def test_a_command_is_one_line_on_a_narrow_terminal_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job_or_all: str
) -> None:
    busy = job("busy", gpus=6, on="n", preemptibility="non-preemptible")
    file = recorded(tmp_path, [queue("q"), node("n"), *busy, *job("pair", 2, gpus=2)])
    question = ("explain", job_or_all, "--snapshot", file, "--seconds", "30")
    piped = printed(capsys, *question)
    commands = [line for line in piped.splitlines() if line.startswith("     kubectl patch ")]
    assert commands
    assert all(len(line) > 80 for line in commands)
    as_terminal(monkeypatch, 80, colour=False)
    shown = printed(capsys, *question)
    assert [line for line in shown.splitlines() if line.startswith("     kubectl patch ")] == commands


@pytest.mark.parametrize("columns", [None, 80])
def test_escape_sequences_of_what_tenants_write_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    status = {"schedulingConditions": [{"type": "UnschedulableOnNodePool", "message": f"no room {HOSTILE}"}]}
    group, *pods = job("g")
    group = convert({**to_builtins(group), "status": status}, PodGroup)
    state = state_of([queue("q"), group, *pods])
    answer = explain_as_written(Cluster(read(zipped(take(state, StateOptions(), Configuration(), NOW)))), group.key)
    assert HOSTILE in answer.sentence
    if columns is not None:
        as_terminal(monkeypatch, columns, colour=False)
    print_explanation(answer)
    assert not controls(capsys.readouterr().out)
