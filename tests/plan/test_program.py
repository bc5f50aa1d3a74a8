"""`from bosket import plan`: what would happen, asked by a program."""

from __future__ import annotations

from pathlib import Path

from bosket import Changes, Cluster, load_snapshot, plan
from bosket.testing.build import node, queue
from tests.cli.everyday import recorded

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "look", "labels": {"kai.scheduler/queue": "team"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
    },
}


def test_a_program_asks_for_workloads_as_objects(tmp_path: Path) -> None:
    snapshot = recorded(tmp_path, [node("n", gpus=4), queue("team", limit=1)])
    cluster = Cluster(load_snapshot(Path(snapshot)))
    refused = plan(cluster, Changes(workloads=(POD,)))
    assert (refused.exit_code, refused.starts) == (3, ())
    allowed = plan(cluster, Changes(workloads=(POD,), settings=("team.gpu.limit=2",)), namespace="lab")
    (start,) = allowed.starts
    assert (allowed.exit_code, start.job.namespace, start.nodes) == (0, "lab", {"look": "n"})
