"""A process that is killed has lost nothing of its recording that is older than a second."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from bosket.scheduler.recording.flight.reader import FlightRecording, Moment

KILLS = 3
LOST_SECONDS = 1.0


def test_what_was_recorded_a_second_before_kill_9_is_there(tmp_path: Path) -> None:
    dice = Random(9)
    for number in range(KILLS):
        assert seconds_lost(tmp_path / str(number), dice.randrange(20, 400)) < LOST_SECONDS


def seconds_lost(folder: Path, cycles: int) -> float:
    """How old the oldest cycle is that is lost, when the process is killed after so many cycles."""
    command = [sys.executable, "-m", "tests.flight.recording_process", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        handed_over: list[tuple[int, float]] = []
        for line in process.stdout:
            cycle, at = line.split()
            handed_over.append((int(cycle), float(at)))
            if len(handed_over) == cycles:
                break
        killed_at = time.monotonic()
        process.send_signal(signal.SIGKILL)
        handed_over += [(int(cycle), float(at)) for cycle, at in map(str.split, process.stdout) if at]
    told: list[str] = []
    found = set[int]()
    if folder.is_dir():  # otherwise it was killed within the moment before it writes for the first time
        recording = FlightRecording(folder, told.append)
        found = {each.cycle.number for each in recording.cycles() if isinstance(each, Moment)}
    assert told == []
    return max([killed_at - at for cycle, at in handed_over if cycle not in found], default=0.0)
