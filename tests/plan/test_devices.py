"""Pods that claim devices: claims are made from the templates in the files, and plans count the devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bosket.cli.main import main
from bosket.testing.build import node, queue
from tests.cli.everyday import recorded

EXAMPLE = Path(__file__).parents[2] / "examples" / "dra" / "devices.yaml"


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    return recorded(tmp_path, [node("node-000", gpus=0), node("node-001", gpus=0), queue("default-queue", quota=8)])


def test_pods_start_where_the_devices_are(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--snapshot", snapshot, "-f", str(EXAMPLE), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {node for each in told["starts"] for node in each["nodes"].values()} == {"node-000"}
    assert len(told["starts"]) == len(EXAMPLE.read_text().split("kind: Pod\n")) - 1


def test_a_template_that_is_not_in_the_files_is_asked_for(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = EXAMPLE.read_text().split("---\n")
    (tmp_path / "pod.yaml").write_text(next(each for each in documents if "name: trainer" in each))
    assert main(["plan", "--snapshot", snapshot, "-f", str(tmp_path / "pod.yaml")]) == 1
    assert (
        "Pod default/trainer: spec.resourceClaims[0].resourceClaimTemplateName is large-gpu; put this "
        "ResourceClaimTemplate into the files, too" in " ".join(capsys.readouterr().err.split())
    )
