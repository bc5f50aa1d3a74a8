"""The openb trace becomes a recording: a job for every pod, drawn until 130 % of all GPUs are asked for."""

from __future__ import annotations

from pathlib import Path

from benchmarks.openb import NODES_FILE, PODS_FILE, write_openb
from bosket.scheduler.decide import decide
from bosket.scheduler.recording.recorded import load
from bosket.testing.cluster import NOW, placements

NODES = """sn,cpu_milli,memory_mib,gpu,model
small,8000,16384,2,P100
large,64000,262144,8,G2
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
whole,1000,1024,2,1000,
part,1000,1024,1,500,
plain,500,512,0,0,
"""


def write(folder: Path) -> Path:
    (folder / NODES_FILE).write_text(NODES)
    (folder / PODS_FILE).write_text(PODS)
    write_openb(folder, folder / "snapshot.zip")
    return folder / "snapshot.zip"


def test_pods_are_drawn_until_they_ask_for_more_than_there_is(tmp_path: Path) -> None:
    recorded = load(write(tmp_path))
    assert len(recorded.objects["nodes"]) == 2
    # Each turn of the list asks for 2.5 GPUs; 13 are wanted.
    assert 14 <= len(recorded.objects["pods"]) <= 18
    assert len(recorded.objects["podGroups"]) == len(recorded.objects["pods"])
    decisions = decide(recorded.snapshot(NOW), recorded.configuration)
    assert 0 < len(placements(decisions)) < len(recorded.objects["pods"]), "not all have room"
    assert not decisions.evictions


def test_the_recording_is_the_same_every_time(tmp_path: Path) -> None:
    assert write(tmp_path).read_bytes() == write(tmp_path).read_bytes()
