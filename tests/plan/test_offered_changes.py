"""A change that `bosket explain` offers does what it says when `bosket plan --patch` repeats it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bosket.cli.main import main
from bosket.testing.build import job, node, queue
from tests.cli.everyday import recorded


def test_every_offered_change_starts_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = recorded(
        tmp_path,
        [
            *(node(name, gpus=8) for name in ("n1", "n2", "n3")),
            queue("team-a", quota=8, limit=12),
            queue("team-b", quota=8),
            *job("old", 2, gpus=6, queue="team-b", on=["n1", "n2"]),
            *job("mine", 1, gpus=6, queue="team-a", on="n3"),
            *job("next", 2, gpus=8, queue="team-a"),
        ],
    )
    assert main(["explain", "next", "--snapshot", snapshot, "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert changes
    for change in changes:
        (tmp_path / "change.json").write_text(json.dumps(change))
        main(["plan", "--snapshot", snapshot, "--patch", str(tmp_path / "change.json"), "--cycles", "1", "--json"])
        told = json.loads(capsys.readouterr().out)
        (start,) = (each for each in told["starts"] if each["job"] == "default/next")
        assert start["when"] == change["then"]["starts"], change["sentence"]
        assert {f"default/{pod}": node for pod, node in start["nodes"].items()} == change["then"]["nodes"]
