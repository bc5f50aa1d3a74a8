"""`bosket run grove-initc`: what the last init container of a pod runs whose clique starts after others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from bosket.cli.output import CommandError, UsageError

if TYPE_CHECKING:
    from bosket.grove.initc import OwnGang, Parent


@Parameter(name="*", group=Group("Grove init container", sort_key=21))
@dataclass(frozen=True)
class InitContainerFlags:
    """The arguments of the init container.

    Parameters
    ----------
    podcliques
        NAME:COUNT of a PodClique that starts first, and how many of its pods must be ready; once for each.
    pod_info
        Where the files `namespace` and `podgangname` say which gang this pod is of.
    """

    podcliques: Annotated[tuple[str, ...], Parameter(alias="-p", negative=())] = ()
    pod_info: Path = Path("/var/grove/pod-info")


def wait_in_pod(flags: InitContainerFlags, kubeconfig: Path | None, context: str | None) -> None:
    """Wait until all are ready; raises `UsageError`, and `CommandError` where the wait ends before that."""
    from bosket.grove.initc import InvalidParent, NotInGang, Parent, own_gang

    try:
        parents = [Parent.parse(text) for text in flags.podcliques if text.strip()]
    except InvalidParent as error:
        raise UsageError(f"--podcliques {error}") from error
    try:
        gang = own_gang(flags.pod_info)
    except NotInGang as error:
        raise CommandError(str(error)) from error
    if not asyncio.run(_wait(gang, parents, kubeconfig, context)):
        raise CommandError("stopped before all PodCliques were ready")


async def _wait(gang: OwnGang, parents: Sequence[Parent], kubeconfig: Path | None, context: str | None) -> bool:
    """Whether it waited to the end."""
    from bosket.grove.initc import wait_for_parents
    from bosket.kube.kubeconfig import connect
    from bosket.runtime.service import stop_on_signals

    client = connect(kubeconfig, context)
    is_done = False
    try:
        with stop_on_signals():
            await wait_for_parents(client, gang, parents)
            is_done = True
    finally:
        await client.aclose()
    return is_done
