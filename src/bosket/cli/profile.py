"""`bosket profile`: where a running scheduler, or any other service, spends its CPU time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.local_page import PageFlags, ask, find_local_pages, write_answer
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
    where: PageFlags | None = None,
    format: Format = "speedscope",
    output: Annotated[OptionalFilePath, Parameter(name=("--output", "-o"))] = None,
) -> None:
    """Take a CPU profile of a running scheduler, and write it to a file for a viewer.

    The scheduler answers only on the machine that it runs on, at port 8081 by default; an embedded cluster's
    kubeconfig says where. For one in a cluster, forward the port first: kubectl port-forward. Any other service
    answers at its profiler port: bosket run binder --enable-profiler.

    Parameters
    ----------
    seconds
        For how long.
    hertz
        How often a second stacks are looked at.
    format
        For https://www.speedscope.app, or lines for flame graph tools.
    output
        Where to write; a file that is there is replaced.
    """
    import msgspec

    file = output or Path(FORMATS[format][1])
    address = find_local_pages(where, PATH)
    wanted = msgspec.json.encode(ProfileRequest(seconds, hertz, format))
    answer = asyncio.run(ask(address, PATH, seconds + _ANSWER_SECONDS, wanted))
    if answer.status == 404:
        raise CommandError(
            f"whoever answers at {address} takes no profiles; a service does at --profiler-port with --enable-profiler"
        )
    content = answer.content()
    write_answer(file, content)
    flush_line(f"{file}: {answer.note} ({len(content) / 1e3:.1f} kB, from {address})")
    if format == "speedscope":
        flush_line("open it at https://www.speedscope.app, which reads it in the browser and sends it nowhere")
