"""`bosket topology` shows domains with what is free in them, from a snapshot; end-to-end tests show a live cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bosket.cli.main import main
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod_group, queue, topology
from bosket.testing.cluster import NOW, state_of


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Two racks with 4 and 8 GPUs, of which 3 are used; a node outside."""
    objects = [
        node("n0", gpus=4, zone="a", rack="r1"),
        node("n1", gpus=8, zone="a", rack="r2"),
        node("n2", gpus=8, zone="a"),
        topology("t", "zone", "rack", aliases={"rack": "cabinet"}),
        topology("u", "zone"),
        queue("q"),
        pod_group("g"),
        *gang("g", 3, on="n1"),
    ]
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state_of(objects), StateOptions(), Configuration(), NOW)))
    return file


def test_the_tree_has_what_is_used_and_free_and_the_largest_gang(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", str(snapshot), "--topology", "t"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["r1", "rack", "1", "4", "0", "4"] in [line[:6] for line in lines]
    assert ["r2", "rack", "1", "8", "3", "5"] in [line[:6] for line in lines]
    assert lines[0][:2] == ["Topology", "t"]
    assert ["1", "nodes", "don't", "belong", "to", "it:", "n2", "lacks", "rack"] in lines


def test_the_gang_is_of_pods_as_they_are_asked_for(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", str(snapshot), "--topology", "t", "--gpus", "4", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["topologies"]
    (zone,) = shown["root"]["domains"]
    assert (zone["gang"], [rack["gang"] for rack in zone["domains"]]) == (2, [1, 1])
    assert zone["amounts"]["gpus"] == {"total": 12.0, "used": 3.0, "free": 9.0}
    assert shown["outside"] == {"n2": ["rack"]}


def test_narrower_levels_can_be_left_out(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", str(snapshot), "--level", "zone", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["topologies"]
    assert [zone["domains"] for each in shown for zone in each["root"]["domains"]] == [[], []]
    assert main(["topology", str(snapshot), "--level", "cabinet"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--topology", "x"], 1, "--topology x: there is no such Topology; there are t, u"),
        (["--level", "row"], 2, "--level row: no such level; there are zone, rack"),
        (["--context", "c"], 2, "a snapshot file and --kubeconfig or --context were given"),
        (["--gpus", "-1"], 2, "--gpus"),
    ],
)
def test_what_makes_no_sense_is_said_with_an_exit_code(
    snapshot: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    assert main(["topology", str(snapshot), *arguments]) == code
    assert text in " ".join(capsys.readouterr().err.split())


def test_a_cluster_without_topologies_has_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.zip"
    file.write_bytes(zipped(take(state_of([node("n"), queue("q")]), StateOptions(), Configuration(), NOW)))
    assert main(["topology", str(file)]) == 1
    assert "there are no Topologies" in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--help"]) == 0
    assert "bosket topology snapshot.zip --json" in capsys.readouterr().out
