"""`bosket snapshot`: all that a running scheduler knows, into a file for `bosket replay`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.local_page import PageFlags, ask, find_local_pages, write_answer
from bosket.cli.output import CommandError, Flag, flush_line
from bosket.cli.path import FilePath

PATH: Final = "/get-snapshot"


def snapshot(
    *,
    where: PageFlags | None = None,
    output: Annotated[FilePath, Parameter(name=("--output", "-o"))] = Path("snapshot.zip"),
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 120.0,
    json: Flag = False,
) -> None:
    """Fetch what a running scheduler, Bosket's or KAI's, knows of its cluster, and write it to a file.

    The scheduler answers only on the machine that it runs on, at port 8081 by default; an embedded cluster's
    kubeconfig says where. For one in a cluster, forward the port first: kubectl port-forward.

    Parameters
    ----------
    output
        Where to write; a file that is there is replaced.
    timeout
        Seconds to wait for an answer.
    json
        Print what the file holds as a JSON object.
    """
    from bosket.scheduler.recording.recorded import RecordedError, count

    address = find_local_pages(where, PATH)
    data = asyncio.run(_fetch(address, timeout))
    try:
        counts = count(data, f"{address}{PATH}")
    except RecordedError as error:
        raise CommandError(str(error)) from error
    write_answer(output, data)
    if json:
        import msgspec

        held: dict[str, Any] = {"file": str(output), "url": address, "bytes": len(data), "objects": counts}
        flush_line(msgspec.json.encode(held).decode())
        return
    there = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    flush_line(f"{output}: {there or 'no objects'} ({_size(len(data))}, from {address})")
    flush_line(f"try: bosket replay {output}")


async def _fetch(address: str, seconds: float) -> bytes:
    answer = await ask(address, PATH, seconds)
    if answer.status == 404:
        raise CommandError(
            f"whoever answers at {address} gives no snapshots: it is no scheduler, "
            f"or its configuration is without the plugin snapshot"
        )
    return answer.content()


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
