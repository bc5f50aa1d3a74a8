"""`bosket replay` of a recording with something wrong in it: told to the job that suffers, the rest is scheduled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bosket.api.core import Node
from bosket.api.object import KubeObject, ObjectMeta
from bosket.cli.main import main
from bosket.testing.build import gang, node, pod, pod_group, queue
from tests.scheduler.bad_input import cases
from tests.scheduler.transcript import recording_of

CASES = [case for case in cases() if case.in_json]
FINE = (node("n0"), queue("q"), pod_group("fine", min_member=2), *gang("fine", 2))


def recorded(folder: Path, *objects: KubeObject) -> str:
    file = folder / "snapshot.json"
    file.write_text(json.dumps(recording_of([*objects, *FINE])))
    return str(file)


@pytest.fixture
def spoiled(tmp_path: Path) -> str:
    """A recording with all of it at once."""
    return recorded(tmp_path, *(each for case in CASES for each in case.objects))


def test_the_table_tells_each_job_why_it_waits(spoiled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", spoiled]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    why = {line[0].removeprefix("default/"): line[-1] for line in lines if line and line[0].startswith("default/")}
    assert {case.name: case.text for case in CASES if case.text not in why[case.name]} == {}


def test_what_is_fine_is_bound(spoiled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", spoiled, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [bind["pod"] for bind in printed["binds"]] == ["default/fine-0", "default/fine-1"]
    groups = printed["podGroups"]
    assert groups["default/orphan"]["reasons"] == ["QueueDoesNotExist"]
    assert groups["default/unknown"]["reasons"] == ["QueueDoesNotExist"]
    assert groups["default/round"]["reasons"] == ["InvalidSpec"]
    assert groups["default/endless"]["notReady"] is True


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(pod("odd-0").of_group("odd").asks("cpu", "NaN").build(), id="a request that is no number"),
        pytest.param(pod("odd-0").of_group("odd").asks("cpu", "-1").build(), id="a negative request"),
        pytest.param(pod("odd-0").of_group("odd").asks("memory", "9e99").build(), id="an absurd request"),
        pytest.param(pod("odd-0").of_group("odd", "nobody").build(), id="an unknown sub-group"),
        pytest.param(Node(metadata=ObjectMeta(name="a-first")), id="a node without allocatable"),
        pytest.param(node("a-first", cpu="-4"), id="a node with a negative amount"),
    ],
)
def test_objects_that_are_left_out_leave_the_rest_alone(
    odd: KubeObject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", recorded(tmp_path, pod_group("odd"), odd), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(bind["pod"], bind["node"]) for bind in printed["binds"]] == [
        ("default/fine-0", "n0"),
        ("default/fine-1", "n0"),
    ]


def test_what_is_left_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recorded(tmp_path, node("bad", cpu="-4"))]) == 0
    assert "Node bad: status.allocatable: cpu is -4000, it must be between 0 and" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("queues", ("spec", "resources", "gpu", "quota"), "NaN"),
        ("podGroups", ("spec", "preemptibility"), "maybe"),
        ("podGroups", ("spec", "minMember"), "two"),
        ("pods", ("spec", "containers"), 3),
        ("nodes", ("status", "allocatable"), ["all"]),
    ],
)
def test_one_object_that_can_not_be_read_is_named_and_does_not_stop_the_rest(
    kind: str, path: tuple[str, ...], value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoiled = (node("bad"), queue("bad"), pod_group("bad", queue="bad"), pod("bad").of_group("bad").build())
    document = recording_of([*spoiled, *FINE])
    at = document["rawObjects"][kind][0]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(document))
    assert main(["replay", str(file), "--json"]) == 0
    captured = capsys.readouterr()
    bound = [bind["pod"] for bind in json.loads(captured.out)["binds"]]
    assert {"default/fine-0", "default/fine-1"} <= set(bound)
    assert f"rawObjects.{kind}[0].{'.'.join(path)}" in captured.err
    assert "(bad)" in captured.err


def test_an_empty_recording_has_nothing_to_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text('{"rawObjects": {}}')
    assert main(["replay", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["binds"], printed["podGroups"], printed["fairShare"]) == ([], {}, {})
