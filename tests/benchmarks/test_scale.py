"""The report of KAI's scale suite: figures beside KAI's and the Go stack's, and what isn't as promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.go_figure import SCALE_HEADING, read_results
from benchmarks.scale_report import report
from benchmarks.stack_cluster import SERVICES
from benchmarks.stack_run import Measured
from benchmarks.stack_scene import job, jobs_by_node, of_job
from bosket.api.core import Pod, PodSpec
from bosket.api.object import ObjectMeta

KAI = {"fill with 4,000 one-GPU jobs": "6 min 38 s (10 pods/s); 7 min 41 s while they are submitted"}


def measured(**seconds: float) -> Measured:
    scenes = {"while": 100.0, "gang": 5.0, "gang topology": 5.0, "unschedulable 1": 0.8, "reclaim 1": 0.4}
    cpu_s = {**dict.fromkeys(SERVICES, 4.0), "kube-apiserver": 100.0, "etcd": 20.0}
    scenes |= {name.replace("_", " "): value for name, value in seconds.items()}
    return Measured(4000, 512, scenes, cpu_s=cpu_s, memory_mib=dict.fromkeys(cpu_s, 50.0))


def test_each_fill_stands_beside_kais() -> None:
    rows = {row["what"]: row for row in report(500, measured(before=80.0), KAI, {}).rows}
    assert rows["fill, Jobs there before the scheduler"]["found"] == "80.0 s, 50 pods/s"
    assert rows["fill, Jobs there before the scheduler"]["kai"] == "6 min 38 s"
    assert rows["fill while Jobs are submitted"]["kai"] == "7 min 41 s"
    assert rows["share of CPU: API server and etcd"]["found"] == "83%"
    assert "consolidation for 41 gangs of 10" in rows


@pytest.mark.parametrize(
    ("seconds", "broken"),
    [
        ({}, []),
        ({"while": 200.0}, ["20.0 pods a second are less than 30"]),
        ({"gang_topology": 9.0}, ["a gang of 512: 9.00 s are more than 8"]),
        ({"unschedulable_2": 1.6}, ["to tell that there is no room: 1.20 s are more than 1"]),
        ({"reclaim_2": 0.8}, ["to reclaim a GPU: 0.60 s are more than 0.5"]),
    ],
)
def test_promises_that_dont_hold_are_named(seconds: dict[str, float], broken: list[str]) -> None:
    assert report(500, measured(**seconds), KAI, {}).broken == broken


def test_a_scene_that_was_not_played_is_a_dash() -> None:
    rows = {row["what"]: row for row in report(500, measured(), {}, {}).rows}
    assert rows["reclaim for a gang of 250 × 8 GPUs"]["found"] == "–"


def test_kais_figures_are_read_from_their_table(tmp_path: Path) -> None:
    document = tmp_path / "kai.md"
    document.write_text(f"{SCALE_HEADING} (500 nodes)\n| test | result |\n|---|---|\n| one 512-pod gang | 49 s |\n")
    assert read_results(document, SCALE_HEADING) == {"one 512-pod gang": "49 s"}


def pod(name: str, job_name: str, node: str = "") -> Pod:
    labels = {"batch.kubernetes.io/job-name": job_name}
    return Pod(metadata=ObjectMeta(name=name, labels=labels), spec=PodSpec(nodeName=node))


def test_pods_are_told_apart_by_their_job() -> None:
    """Names would confuse `reclaim-1` with `reclaim-10`."""
    mine = of_job({"reclaim-1"}, lambda _: True)
    assert mine(pod("reclaim-1-x", "reclaim-1"))
    assert not mine(pod("reclaim-10-x", "reclaim-10"))


def test_jobs_are_found_by_node() -> None:
    pods = [pod("a-x", "a", "n0"), pod("b-x", "b", "n0"), pod("c-x", "c", "n1"), pod("d-x", "d")]
    assert jobs_by_node(pods) == {"n0": ["a", "b"], "n1": ["c"]}


def test_a_preferred_level_is_asked_for_by_annotation() -> None:
    assert job("a", preferred_level="rack")["metadata"]["annotations"]["kai.scheduler/topology-preferred-placement"]
    assert "kai.scheduler/topology" not in job("a")["metadata"]["annotations"]
