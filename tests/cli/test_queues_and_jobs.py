"""`bosket queues` and `bosket jobs` on a snapshot: numbers, the tree, states, positions, and why jobs wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bosket.cli.cluster_source import SourceFlags, open_cluster
from bosket.cli.main import main
from bosket.testing.build import cordoned, job, node, pod_group, queue
from tests.cli.everyday import LONG, as_terminal, printed, recorded


def test_a_queue_has_what_the_scheduler_counts_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(printed(capsys, "queues", "--snapshot", recorded(tmp_path), "--json"))
    by_name = {each["name"]: each for each in report["queues"]}
    assert list(by_name) == ["company", "nlp", "vision"], "parents come before their children"
    assert report["total"]["gpu"] == 20, "the cordoned node takes no pods"
    nlp, vision = by_name["nlp"], by_name["vision"]
    gpus = {"used": 14.0, "requested": 22.0, "nonPreemptible": 0.0, "quota": 8.0, "limit": None, "weight": 1.0}
    assert gpus.items() <= nlp["resources"]["gpu"].items()
    assert vision["resources"]["gpu"]["limit"] == 12
    assert (vision["runningJobs"], vision["waitingJobs"], vision["waitingGpus"]) == (1, 2, 40.0)
    company = by_name["company"]
    assert company["resources"]["gpu"]["used"] == 16
    assert company["waitingJobs"] == 3
    assert sum(by_name[name]["resources"]["gpu"]["fairShare"] for name in ("nlp", "vision")) == pytest.approx(20)


def test_the_tree_of_queues_has_bars_up_to_the_fair_share_and_beyond(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "queues", "--snapshot", recorded(tmp_path)).splitlines()
    assert lines[0] == "16 of 20 GPUs used (80%), 3 jobs wait"
    rows = {line.split()[0]: line for line in lines[3:]}
    assert rows["nlp"].startswith("  nlp"), "children are indented"
    assert "██████████│▓" in rows["nlp"], "it holds 14, and its fair share is less"
    assert "██░░░░░░░░│" in rows["vision"]
    assert "3 (48)" in rows["company"], "three jobs wait, and ask for 48 GPUs"


def test_one_queue_is_shown_with_those_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path)
    report = json.loads(printed(capsys, "queues", "nlp", "--snapshot", file, "--json"))
    assert [each["name"] for each in report["queues"]] == ["nlp"]
    assert "14 of 20 GPUs used (70%), 1 job waits" in printed(capsys, "queues", "nlp", "--snapshot", file)
    assert main(["queues", "oracle", "--snapshot", file]) == 2
    assert "there is no queue oracle; there are: company, nlp, vision" in capsys.readouterr().err


def test_memory_is_told_in_gib_and_cpu_in_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path)
    assert "0 of 1536 GiB used" in printed(capsys, "queues", "--snapshot", file, "--resource", "memory")
    assert "0 of 192 cores used" in printed(capsys, "queues", "--snapshot", file, "--resource", "cpu")


def test_a_queue_that_cannot_be_used_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path, [queue("lost", parent="nowhere"), node("n")])
    assert "its parent queue 'nowhere' does not exist" in printed(capsys, "queues", "--snapshot", file)


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("command", ["queues", "jobs"])
def test_lines_fit_the_terminal_and_nothing_that_matters_is_cut(
    command: str, columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, columns, colour=False)
    text = printed(capsys, command, "--snapshot", recorded(tmp_path))
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    if command == "jobs":
        assert f"default/{LONG}" in text
        assert "vision/segment" in text
    else:
        assert "│" in text, "the bars are there"


def test_colour_is_for_terminals_that_want_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path)
    assert "\x1b[" not in printed(capsys, "jobs", "--snapshot", file)
    as_terminal(monkeypatch, 100)
    assert "\x1b[32m" in printed(capsys, "jobs", "--snapshot", file)
    as_terminal(monkeypatch, 100, colour=False)
    assert "\x1b[32m" not in printed(capsys, "jobs", "--snapshot", file)


def test_in_a_pipe_each_job_is_one_line_with_the_reason_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "jobs", "--snapshot", recorded(tmp_path)).splitlines()
    assert lines[0].split() == ["JOB", "STATE", "QUEUE", "POS", "AGE", "PODS", "GPUS", "NODES", "WHY"]
    assert len(lines) == 7
    row = next(line for line in lines if "vision/depth" in line)
    assert row.split()[:6] == ["vision/depth", "pending", "vision", "1", "90s", "0/4"]
    assert "12" in row.split("32", 1)[1], "the limit that it would exceed is named"


def test_a_job_has_the_name_of_its_workload_and_is_found_by_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(tmp_path)
    for name in ("pretrain", "pg-pretrain", "default/pretrain"):
        report = json.loads(printed(capsys, "jobs", name, "--snapshot", file, "--json"))
        (row,) = report["jobs"]
        assert (row["name"], row["shown"], row["workload"]) == ("pg-pretrain", "pretrain", "Job/pretrain")
        assert row["nodes"] == ["a-1"]


def test_jobs_are_chosen_by_queue_state_and_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path)

    def names(*options: str) -> list[str]:
        report = json.loads(printed(capsys, "jobs", "--snapshot", file, "--json", *options))
        return [each["shown"] for each in report["jobs"]]

    assert names("--queue", "nlp", "--state", "running") == ["pretrain", "tune"]
    assert names("-n", "vision") == ["detector", "segment", "depth"]
    assert names("-n", "vision", "-A") == ["pretrain", "tune", LONG, "detector", "segment", "depth"]


def test_a_job_that_was_evicted_and_one_that_has_ended_are_told_from_one_that_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = pod_group("gone", started=1e9, evicted=1.1e9)
    file = recorded(tmp_path, [queue("q"), node("n"), gone, pod_group("over"), *job("starts")])
    report = json.loads(printed(capsys, "jobs", "--snapshot", file, "--json", "--finished"))
    states = {each["name"]: each["state"] for each in report["jobs"]}
    assert states["gone"] == "evicted"
    assert states["starts"] == "pending"
    sentences = {each["name"]: each["sentence"] for each in report["jobs"]}
    assert "next cycle" in sentences["starts"]


@pytest.mark.parametrize("terminal", [True, False])
def test_watched_it_is_shown_again_and_again(
    terminal: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_cluster(SourceFlags(snapshot=Path(recorded(tmp_path))))
    monkeypatch.setattr("bosket.cli.view.open_cluster", lambda _: source)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("bosket.cli.view.time.sleep", sleep)
    if terminal:
        as_terminal(monkeypatch, 80)
    with pytest.raises(SystemExit, match="130"):
        main(["queues", "--watch", "--every", "2"])
    text = capsys.readouterr().out
    assert text.count("16 of 20 GPUs used") == 3
    assert pauses == [2.0, 2.0, 2.0]
    assert ("\x1b[2J" in text) is terminal, "only a terminal is cleared"


def test_it_runs_as_a_module_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bosket", "queues", "--snapshot", recorded(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "16 of 20 GPUs used" in done.stdout


def test_where_output_is_ascii_so_are_the_bars(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bosket", "queues", "--snapshot", recorded(tmp_path)],
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"##########|+" in done.stdout
    assert b"inf" in done.stdout


def test_a_snapshot_is_not_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--watch", "--snapshot", recorded(tmp_path)]) == 2
    assert "a snapshot file or a moment doesn't change" in capsys.readouterr().err


def test_nodes_that_take_no_pods_are_counted_in_the_sentence_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = [cordoned(node(f"c-{at}")) for at in range(2)]
    for nodes, said in ((closed[:1], "1 node is cordoned"), (closed, "2 nodes are cordoned")):
        file = recorded(tmp_path, [queue("q"), node("n", gpus=1), *nodes, *job("j", gpus=2)])
        (row,) = json.loads(printed(capsys, "jobs", "--snapshot", file, "--json"))["jobs"]
        assert said in row["sentence"]
