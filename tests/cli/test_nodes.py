"""`bosket nodes` shows free and fragmented GPUs of a snapshot, and so do the scheduler's metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.object import KubeObject
from bosket.cli.main import main
from bosket.scheduler.answers.fragmentation import report
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import cordoned, node, pod, queue
from bosket.testing.cluster import NOW, snapshot_of, state_of


def cluster() -> list[KubeObject]:
    """Of `a` two GPUs are free, with CPU for none but small pods; of `b` half a GPU is; nothing of `off` counts."""
    return [
        queue("q"),
        node("a", gpus=4, cpu="10"),
        node("b", gpus=2, cpu="10", gpu_memory=10_000),
        cordoned(node("off", gpus=8)),
        *(pod(f"large-{number}").gpu(1).cpu("4").running_on("a").build() for number in range(2)),
        pod("small").gpu(1).cpu("1").running_on("b").build(),
        pod("half").shares_gpu(0.5).cpu("1").in_gpu_groups("shared").running_on("b").build(),
    ]


def test_what_is_fragmented_is_told_in_all_by_shape_and_by_node() -> None:
    found = report(snapshot_of(cluster()))
    assert (found.gpus, found.free) == (6, 2.5)
    by_shape = {each.shape: each.fragmented for each in found.shapes}
    assert by_shape == {"1 GPU, 4 CPU": 2.5, "1 GPU, 1 CPU": 0.5, "0.5 GPU, 1 CPU": 0.0}
    assert found.fragmented == pytest.approx(0.5 * 2.5 + 0.25 * 0.5)
    assert {each.name: each.fragmented for each in found.nodes} == pytest.approx({"a": 1.0, "b": 0.375})


def test_the_command_prints_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state_of(cluster()), StateOptions(), Configuration(), NOW)))
    assert main(["nodes", str(file)]) == 0
    told = capsys.readouterr().out
    assert "6 GPUs, 2.5 free, 1.375 of these fragmented: 22.9% of all" in told
    assert "1 GPU, 4 CPU" in told
    assert main(["nodes", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fragmented_share"] == pytest.approx(1.375 / 6)
    assert [each["name"] for each in document["nodes"]] == ["a", "b"]


def test_a_file_and_a_cluster_are_too_much(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text("{}")
    assert main(["nodes", str(tmp_path / "snapshot.json"), "--context", "c"]) == 2


def test_a_cluster_without_gpus_has_none_fragmented(tmp_path: Path) -> None:
    found = report(snapshot_of(queue("q"), node("n", gpus=0)))
    assert (found.gpus, found.fragmented, found.share(found.fragmented)) == (0, 0, 0)
    assert report(snapshot_of(queue("q"))).nodes == ()


def test_metrics_tell_the_share_of_all_gpus_in_all_and_by_shape() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    assert registry.get_sample_value("bosket_scheduler_fragmented_gpus_ratio") is None
    snapshot = snapshot_of(cluster())
    metrics.decided(snapshot, decide(snapshot, Configuration()), 0.0)
    assert registry.get_sample_value("bosket_scheduler_fragmented_gpus_ratio") == pytest.approx(1.375 / 6)
    by_shape = "bosket_scheduler_fragmented_gpus_by_shape_ratio"
    assert registry.get_sample_value(by_shape, {"shape": "1 GPU, 4 CPU"}) == pytest.approx(2.5 / 6)
