"""A run of the foreign controllers: start them, keep them busy, kill a leader, look at what they leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect
from tests.foreign import work
from tests.foreign.programs import CANDIDATES, SERVER, Programs
from tests.foreign.verdict import resident_mib, unexpected_lines

_SAMPLES: Final = 20
#: From this share of the time on, all that the server keeps for a while is full, and it should not grow any more.
_SETTLED: Final = 0.5
#: What Python's allocator may make of that.
_GROWTH_MIB: Final = 25.0
_WORKERS: Final = ("a", "b", "c")


@dataclass
class Outcome:
    """What a run did, measured, and what was not as it should be."""

    done: work.Done = field(default_factory=work.Done)
    #: The server's memory at equal distances in time.
    memory_mib: list[float] = field(default_factory=list)
    #: CPU that the server took.
    server_cpu_seconds: float = 0.0
    broken: list[str] = field(default_factory=list)


def run(binaries: Path, folder: Path, seconds: float, say: Callable[[str], None] = print) -> Outcome:
    """Let them work for so long."""
    outcome = Outcome()
    with Programs(binaries, folder, _define) as programs:
        say(f"running: {', '.join(programs.running)}; logs in {folder}")
        asyncio.run(_run(programs, seconds, outcome, say))
        everything = dict(programs.running)
    for name, component in everything.items():
        lines = unexpected_lines(component)
        outcome.broken += [f"{name} complained {count} times: {line}" for line, count in lines.items()]
    return outcome


def _define(kubeconfig: Path) -> None:
    async def define() -> None:
        client = connect(kubeconfig)
        try:
            await work.define(client)
        finally:
            await client.aclose()

    asyncio.run(define())


async def _run(programs: Programs, seconds: float, outcome: Outcome, say: Callable[[str], None]) -> None:
    client = connect(programs.kubeconfig)
    try:
        async with asyncio.TaskGroup() as tasks:
            sampling = tasks.create_task(_sample(programs, seconds, outcome, say))
            working = [tasks.create_task(work.work(client, seconds, outcome.done, each)) for each in _WORKERS]
            tasks.create_task(_kill_a_leader(programs, client, seconds, outcome))
            await asyncio.gather(*working)
            sampling.cancel()
        outcome.broken += [f"left behind: {each}" for each in await work.leftovers(client)]
        outcome.server_cpu_seconds = _cpu_seconds(programs.running[SERVER].process.pid)
    except* (work.Stuck, AssertionError) as errors:
        outcome.broken += [str(each) for each in errors.exceptions]
    finally:
        await client.aclose()
    for name, component in programs.running.items():
        if component.process.poll() is not None:
            outcome.broken.append(f"{name} ended by itself with code {component.process.returncode}")
    settled = outcome.memory_mib[int(len(outcome.memory_mib) * _SETTLED) :]
    if settled and settled[-1] > settled[0] + _GROWTH_MIB:
        outcome.broken.append(f"the server grew from {settled[0]:.0f} to {settled[-1]:.0f} MiB in the second half")


async def _kill_a_leader(programs: Programs, client: Client, seconds: float, outcome: Outcome) -> None:
    """In the middle of it; the other one must take over."""
    await work.until_leads(client, lambda name: name in CANDIDATES, outcome.done)
    await asyncio.sleep(seconds / 3)
    name, _ = await work.leader(client)
    programs.kill(name)
    await work.until_leads(client, lambda other: other != name, outcome.done)
    outcome.done.counts["elections"] += 1


async def _sample(programs: Programs, seconds: float, outcome: Outcome, say: Callable[[str], None]) -> None:
    started = time.monotonic()
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(seconds / _SAMPLES)
            outcome.memory_mib.append(resident_mib(programs.running[SERVER]))
            counts = ", ".join(f"{count} {what}" for what, count in sorted(outcome.done.counts.items()))
            say(f"{time.monotonic() - started:.0f} s: {counts}; server {outcome.memory_mib[-1]:.0f} MiB")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
