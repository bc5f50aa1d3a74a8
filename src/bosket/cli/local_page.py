"""Asks a running process for one of its local pages: where it answers, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cyclopts import Parameter

from bosket.cli.output import CommandError, UsageError
from bosket.cli.path import OptionalFilePath

#: Where KAI's scheduler answers, and `bosket run scheduler`.
DEFAULT_URL: Final = "http://127.0.0.1:8081"
#: Of what a server says that isn't what was asked for.
_LONGEST_MESSAGE: Final = 200


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What came back."""

    address: str
    status: int
    body: bytes
    note: str = ""

    def content(self) -> bytes:
        """The body of an answer to the point; raises `CommandError` with what else was said."""
        if self.status == 200:
            return self.body
        message = " ".join(self.body.decode(errors="replace").split())[:_LONGEST_MESSAGE]
        raise CommandError(f"{self.address} answers {self.status}: {message or 'nothing'}")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PageFlags:
    """Who is asked.

    Parameters
    ----------
    url
        Where the process answers; by default where the kubeconfig of an embedded cluster says, else at port 8081 of
        this machine.
    kubeconfig
        Of the embedded cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    """

    url: str | None = None
    kubeconfig: OptionalFilePath = None
    context: str | None = None


def find_local_pages(flags: PageFlags | None, path: str) -> str:
    """The address that is given, else where the kubeconfig says (one that was named must say it), else the default."""
    flags = flags or PageFlags()
    if flags.url is not None:
        return _url(flags.url, path)
    from bosket.embedded.kubeconfig import SCHEDULER_EXTENSION
    from bosket.kube.errors import ConfigError
    from bosket.kube.kubeconfig import load

    named = flags.kubeconfig is not None or flags.context is not None
    try:
        noted = load(flags.kubeconfig, flags.context).extensions.get(SCHEDULER_EXTENSION)
    except ConfigError:
        if named:
            raise
        noted = None
    found = noted.get("url") if isinstance(noted, dict) else None
    if isinstance(found, str) and found:
        return _url(found, path)
    if named:
        raise CommandError(
            "the kubeconfig doesn't say where the scheduler answers, only that of an embedded cluster does; otherwise: "
            "kubectl port-forward -n kai-scheduler deployment/kai-scheduler-default 8081, and the command without it"
        )
    return DEFAULT_URL


async def ask(address: str, path: str, seconds: float, posted: bytes | None = None) -> PageAnswer:
    """GET, or POST with a body; raises `CommandError` when nobody answers."""
    import aiohttp

    from bosket.kube.errors import failure_in_words
    from bosket.runtime.local_server import NOTE_HEADER

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.request("GET" if posted is None else "POST", f"{address}{path}", data=posted) as response,
        ):
            note = response.headers.get(NOTE_HEADER, "")
            return PageAnswer(address, response.status, await response.read(), note)
    except TimeoutError as error:
        raise CommandError(f"no answer from {address} within {seconds:g} s") from error
    except aiohttp.ClientError as error:
        raise CommandError(
            f"no scheduler answers at {address}: {failure_in_words(error)} "
            f"(--url names another place; bosket up prints its own)"
        ) from error


def write_answer(file: Path, content: bytes) -> None:
    """For its owner alone: an answer tells much of a cluster. Raises `CommandError`."""
    from bosket.runtime.private_file import write_private

    try:
        write_private(file, content)
    except OSError as error:
        raise CommandError(f"--output {file}: {error.strerror or error}") from error


def _url(text: str, path: str) -> str:
    address = (text if "://" in text else f"http://{text}").rstrip("/").removesuffix(path)
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none
        usable = False
    if not usable:
        raise UsageError(f"--url {text}: not an address such as {DEFAULT_URL}")
    return address
