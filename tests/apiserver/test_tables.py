"""Tables for `kubectl get`."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.apiserver.printers import COLUMNS
from bosket.apiserver.printers.table import human_duration
from tests.apiserver.world import JSON, MERGE, PODS, Doc, World, pod

ACCEPT = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON};as=Table;v=v1beta1;g=meta.k8s.io,{JSON}"


async def rows(world: World, path: str) -> list[Doc]:
    """Cells by the names of their columns."""
    table = (await world.call("GET", path, accept=ACCEPT)).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    names = [each["name"] for each in table["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]


def container(name: str, **state: Any) -> Doc:
    return {"name": name, "ready": "running" in state, "restartCount": 0, "image": "i", "imageID": "", "state": state}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, ("0/1", "Pending")),
        ({"phase": "Running", "containerStatuses": [container("main", running={})]}, ("1/1", "Running")),
        (
            {"phase": "Pending", "containerStatuses": [container("main", waiting={"reason": "ImagePullBackOff"})]},
            ("0/1", "ImagePullBackOff"),
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [container("main", terminated={"reason": "Error", "exitCode": 1})],
            },
            ("0/1", "Error"),
        ),
        (
            {"phase": "Failed", "containerStatuses": [container("main", terminated={"exitCode": 3})]},
            ("0/1", "ExitCode:3"),
        ),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted")),
        (
            {"phase": "Pending", "initContainerStatuses": [container("init", waiting={"reason": "PodInitializing"})]},
            ("0/1", "Init:0/1"),
        ),
    ],
)
async def test_one_word_says_what_a_pod_is_doing(world: World, status: Doc, expected: tuple[str, str]) -> None:
    init = [{"name": "init", "image": "i"}] if "initContainerStatuses" in status else []
    await world.create_pod("a", initContainers=init)
    await world.ok("PATCH", f"{PODS}/a/status", {"status": status}, MERGE)
    (row,) = await rows(world, PODS)
    assert (row["Ready"], row["Status"]) == expected


async def test_a_gated_and_a_terminating_pod_say_so(world: World) -> None:
    await world.create_pod("gated", schedulingGates=[{"name": "x.io/g"}])
    await world.create_pod("going", nodeName="n")
    await world.ok("DELETE", f"{PODS}/going")
    assert [row["Status"] for row in await rows(world, PODS)] == ["SchedulingGated", "Terminating"]


async def test_wide_columns_have_a_lower_rank(world: World) -> None:
    table = (await world.call("GET", PODS, accept=ACCEPT)).body
    ranks = {each["name"]: each["priority"] for each in table["columnDefinitions"]}
    assert [name for name, rank in ranks.items() if rank == 0] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert ranks["Node"] == ranks["IP"] == 1


async def test_a_row_carries_metadata_the_whole_object_or_nothing(world: World) -> None:
    await world.create_pod("a")
    by_default = (await world.call("GET", PODS, accept=ACCEPT)).body["rows"][0]["object"]
    assert by_default["kind"] == "PartialObjectMetadata"
    whole = (await world.call("GET", PODS, accept=ACCEPT, includeObject="Object")).body["rows"][0]["object"]
    assert whole["kind"] == "Pod"
    nothing = (await world.call("GET", PODS, accept=ACCEPT, includeObject="None")).body["rows"][0]["object"]
    assert nothing is None


async def test_a_node_shows_condition_and_roles(world: World) -> None:
    labels = {"node-role.kubernetes.io/control-plane": ""}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}}
    body = {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": True}, "status": status}
    await world.ok("POST", "/api/v1/nodes", body)
    (row,) = await rows(world, "/api/v1/nodes")
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "control-plane", "v1.37.0")


async def test_a_job_shows_how_far_it_is(world: World) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await world.ok("POST", path, {"metadata": {"name": "j"}, "spec": {"completions": 3, "template": template}})
    status = {
        "succeeded": 3,
        "startTime": "2025-01-01T00:00:00Z",
        "completionTime": "2025-01-01T00:01:05Z",
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    await world.ok("PATCH", f"{path}/j/status", {"status": status}, MERGE)
    (row,) = await rows(world, path)
    assert (row["Status"], row["Completions"], row["Duration"]) == ("Complete", "3/3", "65s")


async def test_every_kind_prints_even_an_almost_empty_object(world: World) -> None:
    for kind in world.server.registry:
        for version in kind.versions.values():
            for column in version.columns:
                try:
                    column.value({"metadata": {"name": "x", "creationTimestamp": "2025-01-01T00:00:00Z"}}, 0.0)
                except (KeyError, TypeError) as error:
                    pytest.fail(f"{kind.kind}: {column.name}: {error!r}")
    assert len(COLUMNS) > 25


async def test_other_kinds_show_name_and_age(world: World) -> None:
    await world.ok("POST", "/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}})
    assert await rows(world, "/api/v1/namespaces/default/limitranges") == [{"Name": "l", "Age": "0s"}]
    assert pod("a")["kind"] == "Pod"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (49 * 3600, "2d1h"),
        (10 * 86400, "10d"),
        (800 * 86400, "2y70d"),
    ],
)
def test_durations_are_said_as_kubectl_says_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text
