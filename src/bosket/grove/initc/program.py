"""What happens in the init container from its start to its end.

It knows the pod's gang from files that the downward API fills, and watches the gang's pods with the token that is
mounted beside them; both are part of the pod that the operator makes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bosket.api.core import Pod
from bosket.api.grove.naming import GANG_LABEL
from bosket.grove.initc.parent import Parent, ready_counts, waiting_for
from bosket.kube.client import Client
from bosket.kube.informer import Change, Informer

_log = logging.getLogger(__name__)

POD_INFO: Final = Path("/var/grove/pod-info")


class NotInGang(Exception):
    """The files that say which gang this pod is of can't be read; the message names one."""


class OwnGang(NamedTuple):
    """The gang of the pod that this process runs in."""

    namespace: str
    name: str


def own_gang(directory: Path = POD_INFO) -> OwnGang:
    """As the pod's files say; raises `NotInGang`."""
    return OwnGang(_read(directory / "namespace"), _read(directory / "podgangname"))


async def wait_for_parents(client: Client, gang: OwnGang, parents: Sequence[Parent]) -> None:
    """Until each parent has as many ready pods as it must, all at the same moment."""
    if not parents:
        return
    pods = Informer(client, Pod, namespace=gang.namespace, labels=f"{GANG_LABEL}={gang.name}")
    changed = asyncio.Event()

    def wake(_: Change[Pod]) -> None:
        changed.set()

    pods.subscribe(wake)
    watching = asyncio.create_task(pods.run(), name="pods")
    try:
        await _unless_ended(watching, pods.wait_synced())
        logged: list[Parent] = []
        while missing := waiting_for(parents, ready := ready_counts(pods.store.values())):
            if missing != logged:
                shown = ", ".join(f"{each.clique} ({ready[each.clique]} of {each.minimum} ready)" for each in missing)
                _log.info("waiting", extra={"gang": f"{gang.namespace}/{gang.name}", "podcliques": shown})
                logged = missing
            changed.clear()
            await _unless_ended(watching, changed.wait())
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    _log.info("all are ready", extra={"podcliques": ", ".join(each.clique for each in parents)})


async def _unless_ended(watching: asyncio.Task[None], awaited: Coroutine[Any, Any, Any]) -> None:
    """Wait; raises what ended the watch, which by itself goes on for ever."""
    waiting = asyncio.create_task(awaited)
    try:
        done, _ = await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if watching in done:
            watching.result()
    finally:
        waiting.cancel()


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotInGang(f"{file}: can't be read ({error}): this program runs in pods of Grove's gangs only") from error
    if not text:
        raise NotInGang(f"{file}: is empty; it should name this pod's {file.name}")
    return text
