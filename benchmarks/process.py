"""Bosket's services as processes of their own, and what each of them costs: shared by benchmarks of whole clusters."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.workload import BOSKET

TICKS = os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def process(
    *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`bosket` with these arguments, in this process' environment unless another is given."""
    with log.open("wb") as output:
        started = await asyncio.create_subprocess_exec(
            BOSKET, *arguments, stdout=output, stderr=output, env=environment
        )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.send_signal(signal.SIGTERM)
        await started.wait()


async def until_ready(log: Path) -> None:
    async with asyncio.timeout(120):
        while "\nready\n" not in log.read_text():
            await asyncio.sleep(0.1)


async def until_serving(port: int) -> None:
    """Until the process says that it is ready."""
    async with asyncio.timeout(120):
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def writes(port: int) -> int:
    """Requests that change something, as the process counted them."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    counts = re.findall(r'^rest_client_requests_total\{.*method="(?:POST|PUT|PATCH|DELETE)"\} (\S+)$', text, re.M)
    return int(sum(map(float, counts)))


def memory_mib(pid: int) -> float:
    """What a process holds in memory now."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else 0.0
