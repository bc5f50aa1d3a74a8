"""`bosket plan` with changes of queues and nodes: what would start, wait and be evicted, before and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.api.object import KubeObject, OwnerReference
from bosket.cli.main import main
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import job, node, priority_class, queue
from bosket.testing.cluster import NOW, state_of

Planned = Callable[..., tuple[int, Any]]


def two_nodes() -> list[KubeObject]:
    """Two nodes of four GPUs in two racks, a queue that may use four, and one that may use all."""
    return [
        node("n1", gpus=4, rack="r1"),
        node("n2", gpus=4, rack="r2"),
        queue("team-a", quota=4, limit=4),
        queue("team-b", quota=4),
        priority_class("train", 50),
    ]


def of_a_job(objects: Sequence[KubeObject]) -> list[KubeObject]:
    """The same objects, the pods among them with a controller that replaces them."""
    owner = OwnerReference(apiVersion="batch/v1", kind="Job", name="j", uid="u", controller=True)
    return [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, ownerReferences=(owner,)))
        if isinstance(each, Pod)
        else each
        for each in objects
    ]


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """`bosket plan` on these objects: exit code, and what it prints as JSON, or the complaint."""

    def run(objects: Sequence[KubeObject], *arguments: str) -> tuple[int, Any]:
        file = tmp_path / "snapshot.zip"
        file.write_bytes(zipped(take(state_of(objects), StateOptions(), Configuration(), NOW)))
        code = main(["plan", "--snapshot", str(file), "--json", *arguments])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else printed.err

    return run


def test_a_higher_limit_lets_a_waiting_job_start(plan: Planned) -> None:
    objects = [*two_nodes(), *job("big", 2, gpus=3, queue="team-a")]
    code, told = plan(objects, "--set", "team-a.gpu.limit=6")
    assert code == 0
    assert [(each["job"], each["when"], sorted(each["nodes"].values())) for each in told["starts"]] == [
        ("default/big", "now", ["n1", "n2"])
    ]
    assert told["waits"] == []
    assert told["usage"]["gpus_used"] == [0, 6]


def test_a_job_that_waits_with_and_without_the_change_is_told_as_such(plan: Planned) -> None:
    objects = [*two_nodes(), *job("big", 2, gpus=3, queue="team-a")]
    code, told = plan(objects, "--set", "team-b.gpu.quota=2")
    assert code == 0
    assert [(each["job"], each["verdict"], each["anyway"]) for each in told["waits"]] == [
        ("default/big", "never", True)
    ]


def test_a_drained_node_s_pods_move_where_there_is_room(plan: Planned) -> None:
    objects = [*two_nodes(), *of_a_job(job("run", 2, gpus=2, queue="team-b", on="n1"))]
    code, told = plan(objects, "--drain", "n1")
    assert code == 4
    assert [(each["job"], each["pods"], each["for"]) for each in told["evicts"]] == [
        ("default/run", ["run-0", "run-1"], "drain of n1")
    ]
    assert [set(each["nodes"].values()) for each in told["starts"]] == [{"n2"}]


def test_a_drained_rack_without_room_elsewhere_makes_its_jobs_wait(plan: Planned) -> None:
    here = job("here", 1, gpus=2, queue="team-b", on="n1", preemptibility="non-preemptible")
    there = job("there", 1, gpus=2, queue="team-b", on="n2", preemptibility="non-preemptible")
    other = job("other", 1, gpus=1, queue="team-a", on="n2", preemptibility="non-preemptible")
    code, told = plan([*two_nodes(), *of_a_job([*here, *there, *other])], "--drain", "rack=r1")
    assert code == 2
    assert [(each["job"], each["verdict"], each["anyway"]) for each in told["waits"]] == [
        ("default/here", "not-now", False)
    ]


def test_pods_that_nobody_makes_anew_are_lost_by_a_drain(plan: Planned) -> None:
    objects = [*two_nodes(), *job("bare", 1, gpus=1, queue="team-b", on="n1")]
    _, told = plan(objects, "--drain", "n1")
    assert told["drained"] == [{"nodes": ["n1"], "lost": ["default/bare-0"], "blocked": []}]
    assert told["starts"] == []


def test_added_nodes_are_like_the_one_that_is_named(plan: Planned) -> None:
    objects = [*two_nodes(), *job("wide", 3, gpus=4, queue="team-b")]
    code, told = plan(objects, "--add-nodes", "1:like=n2")
    assert code == 0
    assert told["starts"][0]["nodes"].keys() == {"wide-0", "wide-1", "wide-2"}
    assert set(told["starts"][0]["nodes"].values()) == {"added-1", "n1", "n2"}


def test_a_deleted_job_makes_room(plan: Planned) -> None:
    held = job("old", 2, gpus=4, queue="team-b", on=["n1", "n2"], preemptibility="non-preemptible")
    objects = [*two_nodes(), *held, *job("new", 1, gpus=4, queue="team-a")]
    _, without = plan(objects, "--set", "team-a.priority=100")
    assert [each["job"] for each in without["waits"]] == ["default/new"]
    code, told = plan(objects, "--delete", "PodGroup/old")
    assert code == 0
    assert [(each["job"], each["when"]) for each in told["starts"]] == [("default/new", "after-deletions")]
    assert told["usage"]["gpus_used"] == [8, 4]


def test_a_reclaim_that_a_quota_causes_is_followed_until_the_evicted_wait(plan: Planned) -> None:
    running = of_a_job(job("run", 2, gpus=4, queue="team-b", on=["n1", "n2"], min_member=1))
    objects = [*two_nodes(), *running, *job("mine", 1, gpus=4, queue="team-a")]
    objects[2] = queue("team-a", quota=0, weight=0, limit=8)
    code, told = plan(objects, "--set", "team-a.gpu.quota=4", "--cycles", "5")
    assert code == 4
    (start,) = told["starts"]
    assert (start["job"], start["when"]) == ("default/mine", "after-evictions")
    (evicted,) = told["evicts"]
    assert (evicted["job"], len(evicted["pods"]), evicted["for"]) == ("default/run", 1, "default/mine")
    assert told["fairShare"]["team-a"]["before"]["gpu"] == 0
    assert told["fairShare"]["team-a"]["after"]["gpu"] == 4
    assert 1 < told["cycles"] < 5


def test_a_cluster_without_nodes_gets_its_first(plan: Planned) -> None:
    cluster = [queue("team-b", quota=4), *job("first", 2, gpus=2, queue="team-b")]
    code, told = plan(cluster, "--set", "team-b.gpu.quota=8")
    assert (code, told["usage"]["gpus"]) == (0, [0, 0])
    assert told["waits"][0]["verdict"] == "never"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "team-x.gpu.quota=1"), "there is no queue team-x; there are: team-a, team-b"),
        (("--set", "team-a.gpu=1"), "write QUEUE.RESOURCE.FIELD=VALUE"),
        (("--set", "team-a.memory.quota=lots"), "write an amount such as 64Gi"),
        (("--drain", "n9"), "there is no node n9"),
        (("--drain", "rack=r9"), "the label's values are r1, r2"),
        (("--add-nodes", "some"), "write a number from 1"),
        (("--add-nodes", "1:like=n9"), "there is no node n9 that they could be like"),
        (("--delete", "Queue"), "write KIND/NAME"),
        (("--delete", "Queue/none"), "there is no Queue none"),
        (("--delete", "Job/none"), "belongs to it"),
    ],
)
def test_what_makes_no_sense_is_told_by_name(plan: Planned, arguments: tuple[str, ...], said: str) -> None:
    code, told = plan(two_nodes(), *arguments)
    assert code == 1
    assert said in told


def test_a_plan_on_another_cluster_is_refused_by_its_digest(plan: Planned) -> None:
    _, told = plan(two_nodes(), "--add-nodes", "1")
    assert plan(two_nodes(), "--add-nodes", "1", "--expect", told["snapshotDigest"])[0] == 0
    code, said = plan([*two_nodes(), node("n3")], "--add-nodes", "1", "--expect", told["snapshotDigest"])
    assert code == 1
    assert "no longer what was planned on" in said
