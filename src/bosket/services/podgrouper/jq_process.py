"""The worker process for jq programs, as its owner sees it: started when it is needed, replaced when it is dead.

`jq_evaluator` calls `run` in a thread. Nothing that a program does reaches further than `jq_worker`'s process.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Timer
from typing import Final

from bosket.services.podgrouper import jq_worker
from bosket.services.podgrouper.program import Answer

#: A worker that doesn't answer a batch for so long is killed, however little CPU time it got.
_WALL_SECONDS: Final = 30.0
#: Longer lines aren't a worker's: an answer is at most `RESULT_CHARACTERS`, escaped, and an error's text.
_LINE_BYTES: Final = 8 << 20


class WorkerClosed(Exception):
    """The process was closed while a batch was on its way."""


class JqProcess:
    """One worker process at a time."""

    def __init__(self, wall_seconds: float = _WALL_SECONDS) -> None:
        self._wall_seconds = wall_seconds
        self._one_batch = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        #: How many workers were started.
        self.starts = 0

    def run(self, content: bytes, programs: Sequence[str]) -> tuple[Answer, ...]:
        """How each program ends on an object; blocks until all have.

        After one that exceeds a limit the others aren't run, and are said to exceed it too.
        """
        with self._one_batch:
            fresh = self._process is None
            answers, exit_code = self._exchange(content, programs)
            if exit_code in _OUT_OF_MEMORY and not fresh:
                # What earlier programs left behind may have filled the memory.
                answers, exit_code = self._exchange(content, programs)
        if len(answers) < len(programs):
            message = f"{_shown(programs[len(answers)])} {_reason(exit_code, self._wall_seconds)}"
            answers += [Answer("exceeded", error=message)] * (len(programs) - len(answers))
        return tuple(answers)

    def close(self) -> None:
        """End the worker; a batch that is on its way raises `WorkerClosed`."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._one_batch:
            self._reap()

    def _exchange(self, content: bytes, programs: Sequence[str]) -> tuple[list[Answer], int]:
        """The answers up to the worker's death, and its exit code; 0 while it lives."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = Timer(self._wall_seconds, process.kill)
        watchdog.start()
        answers: list[Answer] = []
        try:
            process.stdin.write(content + b"\n" + json.dumps(programs).encode() + b"\n")
            process.stdin.flush()
            for program in programs:
                answers.append(_answer(program, process.stdout.readline(_LINE_BYTES)))
        except (OSError, ValueError):  # the worker is dead, or what it said is no answer
            process.kill()
            return answers, self._reap()
        finally:
            watchdog.cancel()
        return answers, 0

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise WorkerClosed
        if self._process is None:
            self.starts += 1
            # -I: neither the environment nor the working directory says what Python imports.
            self._process = subprocess.Popen(  # noqa: S603 - nothing of the command comes from outside
                [sys.executable, "-I", str(Path(jq_worker.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
            )
        return self._process

    def _reap(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was left to write to the dead
                pipe.close()
        return process.wait()


#: jq aborts where it gets no memory; a stack that can't grow ends in a fault.
_OUT_OF_MEMORY: Final = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)


def _answer(program: str, line: bytes) -> Answer:
    """Raises ValueError for what isn't an answer."""
    outcome, said = json.loads(line)
    if outcome == "results":
        return Answer("results", tuple(said), characters=len(line))
    error = f"{_shown(program)} {said}" if outcome == "exceeded" else f"{_shown(program)}: {said}"
    return Answer(outcome, error=error, characters=max(len(line), len(error)))


def _shown(program: str) -> str:
    """For messages, which are remembered too: no longer than what a worker says about it."""
    return f'"{program[: jq_worker.MESSAGE_CHARACTERS]}"'


def _reason(exit_code: int, wall_seconds: float) -> str:
    if exit_code == -signal.SIGPROF:
        return f"takes more than {jq_worker.CPU_SECONDS:g} s of CPU time"
    if exit_code in _OUT_OF_MEMORY:
        return f"takes more than {jq_worker.MEMORY_MIB} MiB of memory"
    if exit_code == -signal.SIGKILL:
        return f"takes more than {wall_seconds:g} s, or more memory than there is"
    return f"ended the process that ran it, with exit code {exit_code}"
