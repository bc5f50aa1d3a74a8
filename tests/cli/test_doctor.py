"""`bosket doctor` prints what is wrong for people and for machines, and ends with a code that says whether it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bosket.cli.main import main
from tests.cli.everyday import HOSTILE, as_terminal, controls

HEALTHY = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "default-queue"},
    "spec": {"resources": {name: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for name in ("gpu", "cpu", "memory")}},
}
ORPHAN = {**HEALTHY, "metadata": {"name": "team[a]"}, "spec": {**HEALTHY["spec"], "parentQueue": "research"}}  # type: ignore[dict-item]


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    file = tmp_path / "healthy.yaml"
    file.write_text(yaml.safe_dump(HEALTHY))
    return file


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.yaml"
    file.write_text(yaml.safe_dump_all([HEALTHY, ORPHAN]))
    return file


def test_a_healthy_cluster_ends_with_0(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(healthy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nothing is wrong"
    assert "not checked: deployments (there is no Deployment, SchedulingShard, Config to read)" in lines


@pytest.mark.parametrize("columns", [None, 80])
def test_escape_sequences_in_findings_do_not_reach_the_terminal(
    columns: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hostile.yaml"
    hostile = {**ORPHAN, "spec": {**HEALTHY["spec"], "parentQueue": HOSTILE}}  # type: ignore[dict-item]
    file.write_text(yaml.safe_dump_all([HEALTHY, hostile]))
    if columns is not None:
        as_terminal(monkeypatch, columns, colour=False)
    assert main(["doctor", str(file)]) == 1
    text = capsys.readouterr().out
    assert "there is no queue" in text
    assert not controls(text)


def test_errors_end_with_1_and_each_has_a_line(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(broken)]) == 1
    output = capsys.readouterr()
    (line,) = [line for line in output.out.splitlines() if line.startswith("error")]
    assert "Queue team[a]" in line
    assert 'there is no queue "research"' in line
    assert "kubectl patch queue team[a]" in line
    assert output.err == "bosket: 1 of 1 findings are errors\n"


def test_warnings_alone_end_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps({**HEALTHY, "metadata": {"name": "other"}}))
    assert main(["doctor", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("warning")


def test_json_has_everything(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(broken), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["healthy"], told["counts"]) == (False, {"error": 1, "warning": 0, "info": 0})
    (finding,) = told["findings"]
    assert (finding["code"], finding["severity"], finding["object"], finding["field"]) == (
        "queue-parent-missing",
        "error",
        "Queue team[a]",
        "spec.parentQueue",
    )
    assert finding["command"].startswith("kubectl patch queue")
    assert {"check": "GPUs of nodes", "missing": ["Node"]} in told["notChecked"]


def test_a_person_sees_blocks_with_commands_that_can_be_copied(
    broken: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["doctor", str(broken)]) == 1
    output = capsys.readouterr().out
    assert "\x1b[1;31merror" in output
    command = """$ kubectl patch queue team[a] --type merge -p '{"spec":{"parentQueue":"…"}}'"""
    assert command in output  # in one piece, however narrow the terminal


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["healthy.yaml", "--context", "c"], 2, "files and --kubeconfig or --context were given: which of them?"),
        (["gone.yaml"], 2, "gone.yaml: No such file or directory"),
        (["--kubeconfig", "gone"], 2, "no kubeconfig: gone not found"),
        (["--nonsense"], 2, "--nonsense"),
    ],
)
def test_what_makes_no_sense_is_said_with_an_exit_code(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == code
    assert text in " ".join(capsys.readouterr().err.split())


def test_one_who_could_check_nothing_says_so_and_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\n")
    assert main(["doctor", str(file)]) == 3
    captured = capsys.readouterr()
    assert "nothing was checked" in captured.out
    assert "nothing is wrong" not in captured.out
    assert "nothing could be checked, because none of these could be read: " in captured.err
    assert main(["doctor", str(file), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["healthy"], told["checked"]) == (None, 0)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0
    assert "bosket doctor snapshot.zip" in capsys.readouterr().out
