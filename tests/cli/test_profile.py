"""`bosket profile` asks a running process and writes a file that a viewer opens."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.runtime.local_server import LocalPages, serve_local
from bosket.runtime.profile_page import add_profile_page


async def test_an_embedded_cluster_is_found_by_its_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "out.json"
    listen = Listen(kubeconfig=kubeconfig)
    async with EmbeddedCluster(nodes=1, services=("scheduler",), listen=listen, plugin_server_port=0) as cluster:
        await cluster.wait_ready()
        arguments = ["profile", "--seconds", "0.3", "--kubeconfig", str(kubeconfig), "-o", str(file)]
        assert await asyncio.to_thread(main, arguments) == 0
    document = json.loads(file.read_bytes())
    assert document["name"].startswith("embedded cluster: ")
    assert "s of CPU in 0." in capsys.readouterr().out
    assert file.stat().st_mode & 0o077 == 0


async def test_lines_for_flame_graphs_are_written_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = LocalPages()
    add_profile_page(pages, "binder")
    async with serve_local(pages, 0) as url:
        arguments = ["profile", "--seconds", "0.2", "--url", url, "--format", "collapsed"]
        assert await asyncio.to_thread(main, arguments) == 0
    assert (tmp_path / "profile.collapsed.txt").exists()


async def test_a_process_that_takes_no_profiles_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    async with serve_local(LocalPages(), 0) as url:
        assert await asyncio.to_thread(main, ["profile", "--url", url]) == 1
    assert "takes no profiles; a service does at --profiler-port" in capsys.readouterr().err


def test_bounds_are_checked_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--seconds", "301"]) == 2
    assert "300" in capsys.readouterr().err
