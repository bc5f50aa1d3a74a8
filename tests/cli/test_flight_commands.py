"""`bosket record`, `replay` of a folder, `diff` and --at: what people ask of a flight recording."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from bosket.api.time import format_time, parse_time
from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.recorded_moment import parse_moment
from bosket.scheduler.recording.flight.writer import Bounds
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW
from tests.flight.recorded_run import RecordedRun

SCENE = (node("n1", gpus=2), queue("q", quota=2), pod_group("g", min_member=2), *gang("g", 2))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A gang that is bound, then runs, then has gone; a second one waits."""
    folder = tmp_path / "kubeconfig.recording" / "kai-scheduler"
    run = RecordedRun(folder, *SCENE)
    run.cycle(NOW)
    for name in ("g-0", "g-1"):
        run.state.put(pod(name).of_group("g").gpu(1).running_on("n1").build())
    for each in (pod_group("late"), *gang("late", 1)):
        run.state.put(each)
    run.cycle(NOW + 60)
    for name in ("g-0", "g-1"):
        run.state.drop(pod(name).build())
    run.state.drop(pod_group("g"))
    run.state.put(queue("q", quota=1))
    run.cycle(NOW + 120)
    run.recorder.close()
    return folder


def out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_recording_is_replayed_as_a_whole(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording)]) == 0
    assert "3 cycles from" in (text := out(capsys))
    assert "each decided the same again" in text
    assert main(["replay", str(recording), "--json"]) == 0
    assert json.loads(out(capsys)) == {
        "replayed": 3, "left_out": 0, "first": NOW, "last": NOW + 120, "different": None,
    }  # fmt: skip


def test_the_first_cycle_that_comes_out_differently_is_shown(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bosket.scheduler.answers import flight_replay
    from bosket.scheduler.model.decisions import Decisions

    monkeypatch.setattr(flight_replay, "decide", lambda *_, **__: Decisions())
    assert main(["replay", str(recording)]) == 1
    text = out(capsys)
    assert "cycle 1 at" in text
    assert "then 2 pods were bound and 0 evicted, now 0 and 0" in text
    assert "then: bind default/g-0 to n1" in text


def test_one_moment_is_replayed_as_a_snapshot(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--at", format_time(NOW + 10), "--json"]) == 0
    assert [each["pod"] for each in json.loads(out(capsys))["binds"]] == ["default/g-0", "default/g-1"]


def test_what_is_recorded_is_listed(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "list", str(recording), "--json"]) == 0
    found = json.loads(out(capsys))
    assert (found["cycles"], found["first"], found["last"]) == (3, NOW, NOW + 120)
    assert [(each["cycle"], each["binds"]) for each in found["decisions"]] == [(1, 2), (3, 1)]
    assert main(["record", "list", str(recording.parent)]) == 0
    assert "3 cycles from" in out(capsys)


def test_a_moment_is_exported_as_a_snapshot_file(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "night.zip"
    assert main(["record", "export", str(recording), "--at", format_time(NOW + 60), "-o", str(file)]) == 0
    assert "as cycle 2 saw it" in out(capsys)
    assert main(["jobs", "--snapshot", str(file), "--json"]) == 0
    assert {each["name"] for each in json.loads(out(capsys))["jobs"]} == {"g", "late"}


def test_a_period_is_exported_as_a_file_for_each_cycle_that_decided(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "night"
    assert main(["record", "export", str(recording), "--from", format_time(NOW), "-o", str(folder)]) == 0
    assert len(list(folder.iterdir())) == 2
    assert out(capsys) == f"{folder}: 2 snapshots\n"


def test_what_a_search_places_is_no_decision_in_the_list_nor_in_the_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RecordedRun(tmp_path / "recording", *SCENE)
    assert run.cycle(NOW, kind="search").outcome
    run.cycle(NOW + 60)
    run.recorder.close()
    assert main(["record", "list", str(tmp_path / "recording"), "--json"]) == 0
    assert [each["cycle"] for each in json.loads(out(capsys))["decisions"]] == [2]
    assert main(["record", "export", str(tmp_path / "recording"), "--from", format_time(NOW), "-o", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.zip")
    assert file.stem.endswith("-2")


def test_only_their_owner_reads_exported_files(recording: Path, tmp_path: Path) -> None:
    assert main(["record", "export", str(recording), "-o", str(tmp_path / "night.zip")]) == 0
    assert main(["record", "export", str(recording), "--from", format_time(NOW), "-o", str(tmp_path / "night")]) == 0
    files = [tmp_path / "night.zip", *(tmp_path / "night").iterdir()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_everyday_commands_show_the_cluster_as_it_was(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = ["--kubeconfig", str(tmp_path / "kubeconfig")]
    assert main(["queues", *beside, "--at", format_time(NOW + 60), "--json"]) == 0
    (found,) = json.loads(out(capsys))["queues"]
    assert found["resources"]["gpu"]["used"] == 2
    assert main(["queues", *beside, "--at", format_time(NOW + 130), "--json"]) == 0
    (found,) = json.loads(out(capsys))["queues"]
    assert found["resources"]["gpu"]["used"] == 0


def test_two_moments_are_compared(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moments = [format_time(NOW + 60), format_time(NOW + 120)]
    assert main(["diff", *moments, "--recording", str(recording)]) == 0
    text = out(capsys)
    assert text.startswith("2 of 2 GPUs were used, 0 of 2 are 60s later; 0 jobs started, 0 stopped, 1 ended; 1 waited")
    assert "default/g" in text
    assert main(["diff", *moments, "--recording", str(recording), "--json"]) == 0
    found = json.loads(out(capsys))
    assert [(each["name"], each["course"]) for each in found["jobs"]] == [("g", "ended")]
    assert {"name": "q", "what": "gpu quota", "before": 2.0, "after": 1.0} in found["queues"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["replay", "{folder}", "--at", "soon"], "neither a time of day such as 03:00"),
        (["replay", "{folder}", "--repeat", "2"], "are for one cycle: give --at, too"),
        (["replay", "{folder}", "--at", "2020-01-01T00:00:00Z"], "nothing is recorded at 2020-01-01T00:00:00Z"),
        (["record", "list", "{folder}/nowhere"], "there is no such folder"),
        (["record", "export", "{folder}", "--at", "1h", "--from", "2h"], "which of them?"),
        (["queues", "--at", "1h", "--snapshot", "x.zip"], "which of them?"),
        (["queues", "--at", "1h", "--kubeconfig", "{folder}/none"], "there is none beside the kubeconfig"),
        (["diff", "gone.zip"], "gone.zip: there is no such file"),
        (["record", "list", "{folder}", "--shard", "west"], "--shard west: not in"),
    ],
)
def test_what_makes_no_sense_is_said(
    recording: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([each.format(folder=recording.parent) for each in arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_of_several_schedulers_one_is_chosen(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = RecordedRun(recording.with_name("kai-scheduler-west"), *SCENE, bounds=Bounds())
    other.cycle(NOW)
    other.recorder.close()
    assert main(["record", "list", str(recording.parent)]) == 2
    assert "several schedulers were recorded (kai-scheduler, kai-scheduler-west)" in capsys.readouterr().err
    assert main(["record", "list", str(recording.parent), "--shard", "west", "--json"]) == 0
    assert msgspec.json.decode(out(capsys))["cycles"] == 1


def test_times_of_day_are_the_last_ones() -> None:
    noon = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))
    assert parse_moment("11:30", noon) == noon - 1800
    assert parse_moment("12:30:00", noon) == noon - 84600
    assert parse_moment("2d", noon) == noon - 2 * 86400
    assert parse_moment("2026-01-02T03:04:05Z", noon) == parse_time("2026-01-02T03:04:05Z")
    with pytest.raises(UsageError, match="--since x: neither a time of day"):
        parse_moment("x", noon, "--since")
