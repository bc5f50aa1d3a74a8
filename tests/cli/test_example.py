"""`bosket example` against a cluster over the network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_an_example_is_created_with_its_kinds_and_its_groups_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    files = [str(EXAMPLES / "00-queues.yaml"), str(EXAMPLES / "kinds" / "pytorch-job.yaml")]
    arguments = ["example", *files, "--kubeconfig", str(kubeconfig)]
    async with EmbeddedCluster(nodes=1, listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        assert await asyncio.to_thread(main, arguments) == 0
        first = capsys.readouterr().out
        assert await asyncio.to_thread(main, arguments) == 0
        again = capsys.readouterr().out
    assert "pytorchjob/mnist created" in first
    assert "pod/mnist-worker-2 runs on " in first
    (_, *shown) = first.splitlines()[-1].split()
    assert shown == ["team-a", "train", "4", "4", "master", "1,", "worker", "3"]
    assert "pytorchjob/mnist was there" in again


def test_what_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "example.yaml"
    file.write_text("kind: Pod\n")
    assert main(["example", str(file)]) == 2
    assert "apiVersion is missing" in capsys.readouterr().err
    assert main(["example"]) == 2
    assert "which example?" in capsys.readouterr().err


async def test_a_kind_without_a_definition_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "example.yaml"
    file.write_text("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n")
    kubeconfig = tmp_path / "kubeconfig"
    async with EmbeddedCluster(nodes=0, services=(), listen=Listen(kubeconfig=kubeconfig)):
        assert await asyncio.to_thread(main, ["example", str(file), "--kubeconfig", str(kubeconfig)]) == 1
    assert "doesn't know the kind Gadget of example.com/v1" in capsys.readouterr().err
