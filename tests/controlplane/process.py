"""One process of the control plane: started with its log in a file, waited for until it is healthy, stopped by its pid.

`plane.py` uses it. Nothing here sleeps: between two looks at its health we wait for the process to end, so that one
that dies is noticed at once.
"""

from __future__ import annotations

import os
import select
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.05
_LOG_LINES: Final = 25


class ComponentFailed(Exception):
    """A process ended or did not become healthy; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Health:
    """The URL that answers 200 when a process is ready, and whom it trusts."""

    url: str
    tls: ssl.SSLContext | None = None

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url, timeout=2, context=self.tls) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@dataclass(frozen=True, slots=True)
class Component:
    """A running process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    health: Health

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        health: Health,
        environment: Mapping[str, str] | None = None,
    ) -> Component:
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            # A session of its own: Ctrl-C in a terminal reaches the tests, which then stop everything in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        (folder / f"{name}.pid").write_text(str(process.pid))
        return cls(name, process, log, health)

    def wait_healthy(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self.health.answers():
            if time.monotonic() > deadline:
                raise ComponentFailed(f"{self.name} is not healthy after {timeout_seconds:.0f} s{self._end_of_log()}")
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_LOOK_SECONDS)
                raise ComponentFailed(f"{self.name} ended with code {code}{self._end_of_log()}")

    def stop(self, grace_seconds: float) -> None:
        """Ask it to end; after the grace, end it."""
        self.process.terminate()
        try:
            self.process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"; the end of {self.log}:\n" + "\n".join(f"  {line}" for line in lines)


def stop_recorded(pid_file: Path, grace_seconds: float) -> bool:
    """End the process that another run of ours recorded; False if it is gone, or if its pid belongs to another now."""
    pid = int(pid_file.read_text())
    try:
        descriptor = os.pidfd_open(pid)  # from here on, a pid that is used again can't be mistaken for it
    except ProcessLookupError:
        return False
    try:
        # Every component has its folder on its command line.
        if str(pid_file.parent).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], grace_seconds)[0]:
                break
    finally:
        os.close(descriptor)
    return True
