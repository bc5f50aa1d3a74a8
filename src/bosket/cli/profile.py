"""`bosket profile`: where a running scheduler, or any other service, spends its CPU time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.local_page import ask, find_local_pages
from bosket.cli.output import CommandError, flush_line
from bosket.cli.path import OptionalFilePath
from bosket.runtime.profile_format import FORMATS, Format
from bosket.runtime.profile_page import DEFAULT_HERTZ, DEFAULT_SECONDS, PATH, ProfileRequest
from bosket.runtime.profiler import MOST_HERTZ, MOST_SECONDS

#: Beyond the profile itself.
_ANSWER_SECONDS = 30.0


def profile(
    *,
    seconds: Annotated[float, Parameter(validator=Number(gt=0, lte=MOST_SECONDS))] = DEFAULT_SECONDS,
    hertz: Annotated[int, Parameter(validator=Number(gte=1, lte=MOST_HERTZ))] = DEFAULT_HERTZ,
    url: str | None = None,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    format: Format = "speedscope",
    output: Annotated[OptionalFilePath, Parameter(name=("--output", "-o"))] = None,
) -> None:
    """Take a CPU profile of a running scheduler, and write it to a file for a viewer.

    The scheduler answers only on the machine that it runs on, at port 8081 unless told otherwise; an embedded cluster's
    kubeconfig says where. For one in a cluster, forward the port first: kubectl port-forward. Any other service
    answers at its profiler port: bosket run binder --enable-profiler.

    Parameters
    ----------
    seconds
        For how long.
    hertz
        How often a second stacks are looked at.
    url
        Where the process answers; by default where the kubeconfig of an embedded cluster says, else at port 8081 of
        this machine.
    kubeconfig
        Of the embedded cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    format
        For https://www.speedscope.app, or lines for flame graph tools.
    output
        Where to write; a file that is there is replaced.
    """
    import msgspec

    from bosket.runtime.private_file import write_private

    file = output or Path(FORMATS[format][1])
    address = find_local_pages(url, kubeconfig, context, PATH)
    wanted = msgspec.json.encode(ProfileRequest(seconds, hertz, format))
    answer = asyncio.run(ask(address, PATH, seconds + _ANSWER_SECONDS, wanted))
    if answer.status == 404:
        raise CommandError(
            f"whoever answers at {address} takes no profiles; a service does at --profiler-port with --enable-profiler"
        )
    content = answer.content()
    try:
        write_private(file, content)
    except OSError as error:
        raise CommandError(f"--output {file}: {error.strerror or error}") from error
    flush_line(f"{file}: {answer.note} ({len(content) / 1e3:.1f} kB, from {address})")
    if format == "speedscope":
        flush_line("open it at https://www.speedscope.app, which reads it in the browser and sends it nowhere")
