"""`python -m tests.flight.recording_process FOLDER` records cycles until it is killed, and prints when each was handed
over."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bosket.scheduler.recording.flight.writer import Bounds
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW
from tests.flight.recorded_run import RecordedRun


def main(folder: Path) -> None:
    """A pod comes or goes in each cycle."""
    scene = (*(node(f"n{number}") for number in range(20)), queue("q"), pod_group("g", min_member=2), *gang("g", 2))
    run = RecordedRun(folder, *scene, bounds=Bounds(most_bytes=4 << 20))
    number = 0
    while True:
        number += 1
        run.state.put(pod(f"p{number % 50}").cpu("1").running_on(f"n{number % 20}").build())
        run.cycle(NOW + number)
        sys.stdout.write(f"{number} {time.monotonic()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
