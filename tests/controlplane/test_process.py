from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.controlplane.process import Component, ComponentFailed, Health, stop_recorded

NEVER = Health("http://127.0.0.1:9/healthz")


def start(folder: Path, script: str) -> Component:
    """A shell that runs the script, told its folder as every component is; returns when the script runs."""
    component = Component.start("sample", ["/bin/sh", "-c", f"echo started; {script}", str(folder)], folder, NEVER)
    while not component.log.read_bytes():
        with suppress(subprocess.TimeoutExpired):
            component.process.wait(0.01)
    return component


def test_a_process_that_dies_is_reported_at_once_with_the_end_of_its_log(tmp_path: Path) -> None:
    component = start(tmp_path, "echo cannot listen; exit 4")
    with pytest.raises(ComponentFailed, match=r"(?s)sample ended with code 4.*cannot listen"):
        component.wait_healthy(timeout_seconds=60)


def test_a_process_that_does_not_become_healthy_is_reported_after_its_time(tmp_path: Path) -> None:
    component = start(tmp_path, "exec sleep 60")
    try:
        with pytest.raises(ComponentFailed, match="sample is not healthy after 0 s"):
            component.wait_healthy(timeout_seconds=0.1)
    finally:
        component.stop(grace_seconds=5)


def test_a_process_that_ignores_the_request_is_ended_after_the_grace(tmp_path: Path) -> None:
    component = start(tmp_path, "trap '' TERM; while :; do sleep 0.05; done")
    component.stop(grace_seconds=0.1)
    assert component.process.returncode is not None


def test_a_recorded_process_is_stopped_only_if_it_is_still_ours(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    other.mkdir()
    component = start(ours, "while :; do sleep 0.05; done")
    try:
        (other / "sample.pid").write_text(str(component.process.pid))
        assert not stop_recorded(other / "sample.pid", grace_seconds=5)
        assert component.process.poll() is None
        assert stop_recorded(ours / "sample.pid", grace_seconds=5)
    finally:
        component.stop(grace_seconds=5)
    assert not stop_recorded(ours / "sample.pid", grace_seconds=5)
