"""`bosket snapshot`: all that a running scheduler knows, into a file for `bosket replay`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, flush_line
from bosket.cli.path import FilePath, OptionalFilePath

if TYPE_CHECKING:
    from aiohttp import ClientResponse

PATH: Final = "/get-snapshot"
#: Where KAI's scheduler answers, and `bosket run scheduler`.
DEFAULT_URL: Final = "http://127.0.0.1:8081"
#: Of what a server says that isn't a snapshot.
_LONGEST_MESSAGE: Final = 200


def snapshot(
    *,
    url: str | None = None,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    output: Annotated[FilePath, Parameter(name=("--output", "-o"))] = Path("snapshot.zip"),
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 120.0,
    json: Flag = False,
) -> None:
    """Fetch what a running scheduler, Bosket's or KAI's, knows of its cluster, and write it to a file.

    The scheduler answers only on the machine that it runs on, at port 8081 unless told otherwise; an embedded cluster's
    kubeconfig says where. For one in a cluster, forward the port first: kubectl port-forward.

    Parameters
    ----------
    url
        Where the scheduler answers; by default where the kubeconfig of an embedded cluster says, else at port 8081 of
        this machine.
    kubeconfig
        Of the embedded cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    output
        Where to write; a file that is there is replaced.
    timeout
        Seconds to wait for an answer.
    json
        Print what the file holds as a JSON object.
    """
    from bosket.runtime.private_file import write_private
    from bosket.scheduler.snapshot.recorded import RecordedError, count

    address = _url(url) if url is not None else _find(kubeconfig, context)
    data = asyncio.run(_fetch(address, timeout))
    try:
        counts = count(data, f"{address}{PATH}")
    except RecordedError as error:
        raise CommandError(str(error)) from error
    try:
        write_private(output, data)
    except OSError as error:
        raise CommandError(f"--output {output}: {error.strerror or error}") from error
    if json:
        import msgspec

        held: dict[str, Any] = {"file": str(output), "url": address, "bytes": len(data), "objects": counts}
        flush_line(msgspec.json.encode(held).decode())
        return
    there = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    flush_line(f"{output}: {there or 'no objects'} ({_size(len(data))}, from {address})")
    flush_line(f"try: bosket replay {output}")


def _url(text: str) -> str:
    address = (text if "://" in text else f"http://{text}").rstrip("/").removesuffix(PATH)
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none
        usable = False
    if not usable:
        raise UsageError(f"--url {text}: not an address such as {DEFAULT_URL}")
    return address


def _find(kubeconfig: Path | None, context: str | None) -> str:
    """Where the kubeconfig says; one that was named must say it, any other is only asked."""
    from bosket.embedded.kubeconfig import SCHEDULER_EXTENSION
    from bosket.kube.errors import ConfigError
    from bosket.kube.kubeconfig import load

    named = kubeconfig is not None or context is not None
    try:
        noted = load(kubeconfig, context).extensions.get(SCHEDULER_EXTENSION)
    except ConfigError:
        if named:
            raise
        noted = None
    found = noted.get("url") if isinstance(noted, dict) else None
    if isinstance(found, str) and found:
        return _url(found)
    if named:
        raise CommandError(
            "the kubeconfig doesn't say where the scheduler answers, only that of an embedded cluster does; otherwise: "
            "kubectl port-forward -n kai-scheduler deployment/kai-scheduler-default 8081 & bosket snapshot"
        )
    return DEFAULT_URL


async def _fetch(address: str, seconds: float) -> bytes:
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.get(f"{address}{PATH}") as response,
        ):
            if response.status != 200:
                raise CommandError(await _refusal(address, response))
            return await response.read()
    except TimeoutError as error:
        raise CommandError(f"no answer from {address} within {seconds:g} s") from error
    except aiohttp.ClientError as error:
        told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CommandError(
            f"no scheduler answers at {address}: {told} (--url names another place; bosket up prints its own)"
        ) from error


async def _refusal(address: str, response: ClientResponse) -> str:
    if response.status == 404:
        return (
            f"whoever answers at {address} gives no snapshots: it is no scheduler, "
            f"or its configuration is without the plugin snapshot"
        )
    told = " ".join((await response.text(errors="replace")).split())[:_LONGEST_MESSAGE]
    return f"{address} answers {response.status}: {told or response.reason}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
