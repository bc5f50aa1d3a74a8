"""`bosket nodes` shows free and fragmented GPUs of a snapshot, and so do the scheduler's metrics."""

from __future__ import annotations

import json
from dataclasses import replace
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
from bosket.testing.build import cordoned, job, node, pod, pod_group, queue, topology
from bosket.testing.cluster import NOW, snapshot_of, state_of
from tests.cli import everyday
from tests.cli.everyday import printed


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


def test_each_gpu_is_a_cell_with_the_letter_of_its_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "nodes", everyday.recorded(tmp_path), "--by", "rack")
    rows = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.startswith("  ")}
    assert rows == {"a-1": "AAAAAAAA", "a-2": "AAAAAA··", "b-1": "BB··", "b-2": "----"}
    assert "A nlp   B vision   · free   - free, but the node takes no pods" in text
    assert "takes no pods: it is cordoned" in text


def test_nodes_are_arranged_by_rack_and_those_that_look_alike_stand_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [everyday.in_rack(node(f"n-{at}", gpus=4), f"rack-{at // 4}") for at in range(8)]
    file = everyday.recorded(tmp_path, [queue("q"), *nodes, *job("j", 2, gpus=4, on=("n-4", "n-5"))])
    text = printed(capsys, "nodes", file)
    assert "rack-0 16 GPUs, 4 nodes" in " ".join(text.split())
    assert "n-0 and 3 like it" in text
    assert "n-4, n-5" in text
    report = json.loads(printed(capsys, "nodes", file, "--json"))
    assert report["by"] == "bosket.dev/rack"
    assert [(each["name"], len(each["nodes"])) for each in report["racks"]] == [("rack-0", 4), ("rack-1", 4)]
    held = report["racks"][1]["nodes"][0]["holdings"]
    assert held == [{"queue": "q", "job": "default/j", "gpus": 4.0, "isEnding": False}]


def test_racks_are_shown_without_their_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "nodes", everyday.recorded(tmp_path), "--by", "rack", "--racks")
    rows = [line.split() for line in text.splitlines()[2:]]
    assert rows[0] == ["RACK", "NODES", "GPUS", "FREE", "FRAGMENTED", "EMPTY", "NODES", "CLOSED"]
    assert [(row[0], row[1], row[2], row[3], row[5], row[6]) for row in rows[1:]] == [
        ("a", "2", "16", "2", "0", "0"),
        ("b", "2", "8", "2", "0", "1"),
    ]


def test_any_label_or_level_of_a_topology_arranges_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = everyday.recorded(tmp_path)
    report = json.loads(printed(capsys, "nodes", file, "--json", "--by", "rack"))
    assert {each["name"]: [node["name"] for node in each["nodes"]] for each in report["racks"]} == {
        "a": ["a-1", "a-2"],
        "b": ["b-1", "b-2"],
    }
    levels = topology("t", "zone", "rack", "kubernetes.io/hostname")
    zoned = [node(f"n-{at}", zone="z", rack=f"r{at}") for at in range(2)]
    file = everyday.recorded(tmp_path, [queue("q"), levels, *zoned])
    assert json.loads(printed(capsys, "nodes", file, "--json"))["by"] == "rack", "the narrowest level above the nodes"
    assert main(["nodes", file, "--by", "row"]) == 2
    assert "no node has the label row" in capsys.readouterr().err


def test_shared_gpus_ending_pods_and_those_of_other_schedulers_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    going = pod("going").gpu(2).of_group("old").running_on("n").being_deleted_at(NOW).build()
    file = everyday.recorded(
        tmp_path,
        [
            queue("q"),
            node("n", gpus=8, gpu_memory=10_000),
            pod_group("old"),
            going,
            pod_group("half"),
            pod("half").shares_gpu(0.5).of_group("half").in_gpu_groups("g").running_on("n").build(),
            replace(pod("foreign").gpu(1).running_on("n"), scheduler="default-scheduler").build(),
        ],
    )
    text = printed(capsys, "nodes", file)
    assert "#aa½····" in text
    assert "small: the pod is ending" in text
    assert "# another scheduler's" in text


@pytest.mark.parametrize("columns", [80, 160])
def test_lines_fit_the_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    everyday.as_terminal(monkeypatch, columns, colour=False)
    text = printed(capsys, "nodes", everyday.recorded(tmp_path))
    assert max(map(len, text.splitlines())) <= columns
    assert "FRAGMENTED" in text


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
