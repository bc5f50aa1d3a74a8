"""Where commands that look at a cluster as a whole get it from: files, or the cluster that a kubeconfig names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from bosket.cli.output import CommandError, UsageError
from bosket.cli.path import OptionalFilePath

if TYPE_CHECKING:
    from bosket.tools.doctor import Bundle


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """Which cluster.

    Parameters
    ----------
    kubeconfig
        Which cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    """

    kubeconfig: OptionalFilePath = None
    context: str | None = None


def read_bundle(files: Sequence[Path], cluster: ClusterFlags | None, *, foreign: bool = False) -> Bundle:
    """What the files hold, or, without files, the cluster; with `foreign` also kinds of other projects."""
    from bosket.tools.doctor.files import UnreadableFile, read_files

    flags = cluster or ClusterFlags()
    if not files:
        return asyncio.run(_collect(flags, foreign))
    if flags.kubeconfig is not None or flags.context is not None:
        raise UsageError("files and --kubeconfig or --context were given: which of them?")
    try:
        return read_files(files)
    except UnreadableFile as error:
        raise CommandError(str(error)) from error


async def _collect(flags: ClusterFlags, foreign: bool) -> Bundle:
    from bosket.embedded.kubeconfig import SCHEDULER_EXTENSION
    from bosket.kube.client import Client
    from bosket.kube.http import HttpTransport
    from bosket.kube.kubeconfig import find
    from bosket.tools.doctor.collect import collect

    config = find(flags.kubeconfig, flags.context)
    client = Client(HttpTransport(config))
    try:
        return await collect(client, foreign=foreign, runs_in_process=SCHEDULER_EXTENSION in config.extensions)
    finally:
        await client.aclose()
