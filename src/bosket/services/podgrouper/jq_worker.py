"""The process that runs jq programs: started by `jq_process` as a script, with pipes for its input and output.

A program comes from an object in the cluster, so it may be wrong or hostile. This process has no environment, can open
no file and no socket, and is killed by the kernel when a batch takes too much CPU time or memory; its parent
sees how it ended. It imports nothing of Bosket, because what it imports counts as its memory and its time to start.

A batch is two lines of JSON: the object, then the list of programs. Each program is answered by one line,
`[outcome, results or message]`, as soon as it has ended: so the reader knows which one was running at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from functools import lru_cache
from typing import Any, Final

import jq

#: For all programs of a batch together.
CPU_SECONDS: Final = 1.0
#: Address space of the process; Python and jq themselves take about 30.
MEMORY_MIB: Final = 256
#: Characters of all results of a program, as JSON.
RESULT_CHARACTERS: Final = 65_536
RESULTS: Final = 10_000
#: Of what a program fails with, which may be as long as the object: it is for people to read.
MESSAGE_CHARACTERS: Final = 500


def lock_down() -> None:
    """Give up what no program needs: it can't be had back."""
    os.environ.clear()  # also what Python itself put there at its start
    # What is open stays open; nothing more can be opened, whatever `import`, `include` and `search` name.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory_bytes = MEMORY_MIB << 20
    with contextlib.suppress(ValueError):  # macOS has no such limit: there the CPU time bounds the memory
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


@lru_cache(maxsize=256)
def compiled(program: str) -> Any:
    """Raises ValueError for what is no program."""
    return jq.compile(program)


def answer(program: str, content: str) -> tuple[str, Any]:
    """How a program ended: with `results`, `failed` on this object, `invalid` on any, or it `exceeded` a limit."""
    try:
        runnable = compiled(program)
    except ValueError as error:
        return "invalid", str(error)[:MESSAGE_CHARACTERS]
    results: list[Any] = []
    characters = 0
    try:
        for result in runnable.input_text(content):
            # jq has numbers that JSON doesn't: they are a failure of the program.
            characters += len(json.dumps(result, allow_nan=False))
            results.append(result)
            if characters > RESULT_CHARACTERS or len(results) > RESULTS:
                return "exceeded", f"gives more than {RESULTS} results or {RESULT_CHARACTERS // 1024} KiB"
    except ValueError as error:
        return "failed", str(error)[:MESSAGE_CHARACTERS]
    except (MemoryError, RecursionError):
        return "exceeded", f"takes more than {MEMORY_MIB} MiB of memory"
    return "results", results


def main() -> None:
    """Answer batches until the input ends."""
    lock_down()
    lines = sys.stdin.buffer
    for line in lines:
        content, programs = line.decode(), json.loads(next(lines))
        # The kernel's own action for SIGPROF is to end the process, in the middle of jq's code too.
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        for program in programs:
            sys.stdout.write(json.dumps(answer(program, content)) + "\n")
            sys.stdout.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
