"""`bosket run numa-exporter`: what runs on every node that has NUMA zones."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, UsageError

if TYPE_CHECKING:
    from bosket.services.numa import Options

_Seconds = Annotated[float, Parameter(validator=Number(gt=0))]


@Parameter(name="*", group=Group("NUMA exporter", sort_key=20))
@dataclass(frozen=True)
class NumaExporterFlags:
    """What can be said about the NUMA placement exporter.

    Parameters
    ----------
    node_name
        The node that it runs on; by default what the environment variable NODE_NAME says.
    podresources_socket
        The socket on which the kubelet says which pod has what.
    sysfs_root
        Where the node's sysfs is mounted.
    poll_interval
        Seconds between two looks at the node.
    drift_resync_interval
        Seconds between two looks at what the pods themselves say; 0 for never.
    """

    node_name: str = ""
    podresources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    sysfs_root: Path = Path("/sys")
    poll_interval: _Seconds = 1.0
    drift_resync_interval: Annotated[float, Parameter(validator=Number(gte=0))] = 60.0


def export_placements(flags: NumaExporterFlags, kubeconfig: Path | None, context: str | None) -> None:
    """Export until SIGINT or SIGTERM; raises `UsageError` and `CommandError`."""
    from bosket.services.numa import Options, UnreadableCpus, read_cpu_zones

    node = flags.node_name or os.environ.get("NODE_NAME", "")
    if not node:
        raise UsageError("on which node? give --node-name, or set NODE_NAME")
    try:
        cpu_zones = read_cpu_zones(flags.sysfs_root)
    except UnreadableCpus as error:
        raise CommandError(f"the CPUs of the node's NUMA zones can't be read: {error}") from error
    options = Options(node, flags.poll_interval, flags.drift_resync_interval)
    asyncio.run(_export(options, flags.podresources_socket, cpu_zones, kubeconfig, context))


async def _export(
    options: Options, socket: Path, cpu_zones: dict[int, int], kubeconfig: Path | None, context: str | None
) -> None:
    from bosket.kube.kubeconfig import connect
    from bosket.runtime.clock import SystemClock
    from bosket.runtime.service import stop_on_signals
    from bosket.services.numa import Exporter, KubeletSocket

    client = connect(kubeconfig, context)
    try:
        with stop_on_signals():
            await Exporter(client, KubeletSocket(socket), cpu_zones, SystemClock(), options).run()
    finally:
        await client.aclose()
