"""`bosket replay` runs one cycle on a recorded snapshot and says what came of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bosket.cli.main import main

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "annotations": {"pod-group-name": name}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
    }


def group(name: str, created: str) -> dict[str, Any]:
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
            "podGroups": [group("a", "2020-01-01T00:00:00Z"), group("b", "2020-01-02T00:00:00Z")],
            "pods": [pod("a"), pod("b")],
        },
    }
    file = tmp_path / "snapshot.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("snapshot.json", json.dumps(document))
    return file


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
        captured.err == f"bosket: {snapshot}: its configuration names what isn't there and is left out: dance, waltz\n"
    )


def test_people_get_tables(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(snapshot)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["n/a", "x", "1"] in lines
    assert any(line[:2] == ["n/b", "1"] and "resources" in line for line in lines)
    assert ["Fair", "share", "(1)"] in lines
    assert any(line[:1] == ["allocate"] for line in lines)


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
