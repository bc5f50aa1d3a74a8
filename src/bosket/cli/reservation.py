"""`bosket run reservation`: what a reservation pod runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bosket.cli.output import CommandError

if TYPE_CHECKING:
    from bosket.services.reservation import OwnPod


def hold_gpu(kubeconfig: Path | None, context: str | None) -> None:
    """Report this pod's GPU and stay until SIGINT or SIGTERM; raises `CommandError`."""
    from bosket.services.reservation import DeviceNotFound, NotInPod, own_pod

    try:
        asyncio.run(_hold(own_pod(os.environ), kubeconfig, context))
    except (NotInPod, DeviceNotFound) as error:
        raise CommandError(str(error)) from error


async def _hold(pod: OwnPod, kubeconfig: Path | None, context: str | None) -> None:
    from bosket.kube.kubeconfig import connect
    from bosket.runtime.service import stop_on_signals
    from bosket.services.reservation import hold_device, only_device

    client = connect(kubeconfig, context)
    try:
        with stop_on_signals():
            await hold_device(client, pod, only_device)
    finally:
        await client.aclose()
