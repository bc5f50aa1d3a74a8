"""`bosket replay` runs one cycle on a recorded snapshot and says what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.cli.main import main
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of
from tests.conformance.cases import conformance_folder

CASES = conformance_folder("differential")
#: What the recorded answers may say of a pod group.
_FIELDS = {"pods", "condition", "reasons", "notReady", "stale", "staleMark", "started"}

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def raw_pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "annotations": {"pod-group-name": name}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
    }


def raw_group(name: str, created: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "creationTimestamp": created},
        "spec": {"queue": "q", "minMember": 1},
    }


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """One free GPU, and two jobs that want one each."""
    allocatable = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "1", "pods": "9"}
    document = {
        "config": {
            "actions": "allocate, dance",
            "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}, {"name": "waltz"}]}],
        },
        "rawObjects": {
            "nodes": [{"metadata": {"name": "x"}, "status": {"allocatable": allocatable}}],
            "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {"gpu": FREE, "cpu": FREE, "memory": FREE}}}],
            "podGroups": [raw_group("a", "2020-01-01T00:00:00Z"), raw_group("b", "2020-01-02T00:00:00Z")],
            "pods": [raw_pod("a"), raw_pod("b")],
        },
    }
    file = tmp_path / "snapshot.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("snapshot.json", json.dumps(document))
    return file


def test_memory_is_what_the_cycle_took_not_whoever_started_it(snapshot: Path) -> None:
    ballast = b"x" * 400_000_000
    command = [str(Path(sys.executable).with_name("bosket")), "replay", str(snapshot), "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert 10 < printed["peak_rss_mb"] < len(ballast) / 1e6


def test_the_answer_is_one_json_object_with_what_it_cost(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(snapshot), "--json", "--repeat", "2", "--now", "2026-01-01T00:00:00Z"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert [(bind["pod"], bind["node"], bind["gpuCount"]) for bind in printed["binds"]] == [("n/a", "x", 1)]
    assert printed["podGroups"]["n/b"]["reasons"] == ["PodSchedulingErrors"]
    assert printed["fairShare"]["q"]["gpu"] == 1
    assert (printed["evictions"], printed["pipelined"]) == ([], [])
    assert list(printed["cpu_ms"]) == ["load", "open", "allocate", "total"]
    assert printed["cpu_ms"]["total"] == pytest.approx(
        printed["cpu_ms"]["open"] + printed["cpu_ms"]["allocate"], abs=0.01
    )
    assert printed["peak_rss_mb"] > 0
    assert (
        captured.err
        == f"bosket: {snapshot}: its configuration names what isn't there and is left out: action dance, plugin waltz\n"
    )


def test_people_get_tables(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(snapshot)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["n/a", "x", "1"] in lines
    assert ["1", "of", "2", "jobs", "wait,", "with", "1", "pods."] in lines
    assert ["1", "1", "PodSchedulingErrors"] in lines
    assert any(line[:3] == ["n/b", "q", "1"] and "resources" in line for line in lines)
    assert ["Fair", "share", "(1)"] in lines
    assert ["step", "CPU", "ms", "ms"] in lines
    assert any(line[0] == "allocate" and len(line) == 3 for line in lines if line)


def test_on_a_terminal_the_reasons_are_wrapped_and_not_cut_off(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["replay", str(snapshot)]) == 0
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert "enough" in printed
    assert "resources: GPUs." in " ".join(printed.replace("│", " ").split())


def test_everything_that_can_wait_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also what no reason stands for: a pod held back, a gated extra, a pod of a sub-group that isn't there."""
    state = state_of(
        [
            node("x"),
            queue("q"),
            *(pod_group(name) for name in ("held", "gated", "stray")),
            *gang("held", 1),
            *gang("gated", 1),
            pod("gated-1").of_group("gated").gated_by("g").build(),
            pod("stray-0").gpu(1).of_group("stray").build(),
            pod("stray-1").of_group("stray", "nowhere").build(),
        ]
    )
    state.own.back_off(ObjectKey("default", "held-0"), "uid-held-0", NOW)
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    assert main(["replay", str(file)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "default/held q 1 The binding of one of its pods failed a short while ago" in lines
    assert "default/gated q 1 What isn't placed waits for its scheduling gates to be lifted" in lines
    assert "default/stray q 1 Pods name a sub-group that the pod group doesn't have" in lines


def test_the_time_is_that_of_the_snapshot_unless_another_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod that is being deleted promises its GPU for two minutes."""
    leaving = pod("old").gpu(1).running_on("x").being_deleted_at(NOW).build()
    state = state_of([node("x", gpus=1), queue("q"), pod_group("g"), *gang("g", 1), leaving])
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))

    def pipelined(*options: str) -> list[str]:
        assert main(["replay", str(file), "--json", *options]) == 0
        return [entry["pod"] for entry in json.loads(capsys.readouterr().out)["pipelined"]]

    assert pipelined() == ["default/g-0"]
    assert pipelined("--now", format_time(NOW + 600)) == []


def test_what_queues_used_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = [each for name in "ab" for each in (pod_group(name, queue=name), *gang(name, 1, gpus=10))]
    state = state_of([node("x", gpus=10), queue("a", quota=0), queue("b", quota=0), *requests])
    state.put_usage(Usage({"a": (0.2, 0.0, 0.0), "b": (0.8, 0.0, 0.0)}, NOW))
    file, given = tmp_path / "snapshot.zip", tmp_path / "usage.json"
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    given.write_text('{"a": {"gpu": 0.8}, "b": {"gpu": 0.2}}')

    def shares(*options: str) -> tuple[float, float]:
        assert main(["replay", str(file), "--json", *options]) == 0
        answer = json.loads(capsys.readouterr().out)["fairShare"]
        return answer["a"]["gpu"], answer["b"]["gpu"]

    assert shares() == (8, 2)
    assert shares("--usage", str(given)) == (2, 8)
    given.write_text('{"a": {"gpu": "much"}}')
    assert main(["replay", str(file), "--usage", str(given)]) == 2
    assert f"--usage {given}: [...].gpu: Expected `float`, got `str`" in capsys.readouterr().err
    assert main(["replay", str(file), "--usage", str(tmp_path / "none")]) == 2


def test_without_a_plugin_that_divides_there_are_no_fair_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = Configuration(plugins=(PluginChoice("predicates"),))
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state_of([node("x"), queue("q")]), StateOptions(), configuration, NOW)))
    assert main(["replay", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fairShare"] == {}


def test_an_answer_that_changes_from_run_to_run_is_called_a_bug(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = count()
    monkeypatch.setattr(
        "bosket.scheduler.answers.outcome.answer", lambda *_: {"fairShare": {}, "binds": [next(numbers)]}
    )
    assert main(["replay", str(snapshot), "--json", "--repeat", "2"]) == 1
    assert "decided on differently the second time" in capsys.readouterr().err


@pytest.mark.shared("conformance/differential", cases=8)
def test_the_json_is_shaped_like_the_answers_that_were_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CASES is not None
    for line in (CASES / "cases" / "allocate.jsonl").read_text().splitlines()[:8]:
        case = json.loads(line)
        file = tmp_path / "snapshot.json"
        file.write_text(json.dumps(case["snapshot"]))
        assert main(["replay", str(file), "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert list(printed.pop("cpu_ms"))[:2] == ["load", "open"]
        assert printed.pop("peak_rss_mb") > 0
        assert printed.keys() == case["expected"].keys()
        assert printed["podGroups"].keys() == case["expected"]["podGroups"].keys()
        assert printed["fairShare"].keys() == case["expected"]["fairShare"].keys()
        assert {"pods"} <= {field for group in printed["podGroups"].values() for field in group} <= _FIELDS


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"{}", "rawObjects is missing"), (b'{"rawObjects": {"pods": 3}}', "rawObjects.pods must be a list, it is int")],
)
def test_a_file_that_is_no_snapshot_is_refused_with_the_field_that_is_wrong(
    content: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert main(["replay", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"bosket: {file}: {sentence}")


def test_times_and_numbers_that_are_none_are_refused(snapshot: Path) -> None:
    assert main(["replay", str(snapshot), "--now", "yesterday"]) == 2
    assert main(["replay", str(snapshot), "--repeat", "0"]) == 2


def test_a_job_that_others_are_evicted_for_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It isn't among those that wait, though the first action found no room for it."""
    state = state_of(
        [
            node("x", gpus=1),
            queue("a", quota=0),
            queue("b", quota=1),
            pod_group("old", queue="a"),
            *gang("old", 1, on="x"),
            pod_group("new", queue="b"),
            *gang("new", 1),
        ]
    )
    configuration = Configuration(actions=("allocate", "reclaim"))
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state, StateOptions(), configuration, NOW)))
    assert main(["replay", str(file)]) == 0
    text = capsys.readouterr().out
    assert "Served (1)" in text
    assert "default/new b 1" in [" ".join(line.split()) for line in text.splitlines()]
    assert "jobs wait" not in text
