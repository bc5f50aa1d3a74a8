"""`bosket nodes`: how many GPUs are free, and how much of that pods can't use."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import Flag, UsageError, complain, flush_line, stdout, table
from bosket.cli.path import OptionalFilePath
from bosket.cli.topology import recorded_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from bosket.scheduler.answers.fragmentation import FragmentationReport
    from bosket.scheduler.model.snapshot import Snapshot


def nodes(
    file: OptionalFilePath = None,
    /,
    *,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    most: Annotated[int, Parameter(validator=Number(gte=0))] = 10,
    json: Flag = False,
) -> None:
    """Show how many GPUs are free, and how many of these are fragmented: pods that the cluster sees can't use them.

    A free part of a GPU is fragmented for pods of a shape if not one more of them could use it: too little of the GPU
    is left, or of the node's CPU or memory, or the node isn't for them. In all, shapes count by how frequent they are.

    Parameters
    ----------
    file
        A snapshot (snapshot.zip, or the snapshot.json that is in it); by default the cluster of your kubeconfig.
    kubeconfig
        Which cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    most
        So many shapes and nodes are shown; of nodes those with most fragmented GPUs.
    json
        Print everything as one JSON object.
    """
    from bosket.scheduler.answers.fragmentation import report

    if file is not None and (kubeconfig is not None or context is not None):
        raise UsageError("a snapshot file and --kubeconfig or --context were given: which of them?")
    snapshot = recorded_snapshot(file) if file is not None else asyncio.run(_live(kubeconfig, context))
    found = report(snapshot)
    if json:
        import msgspec

        told = asdict(found) | {"fragmented_share": found.share(found.fragmented)}
        flush_line(msgspec.json.encode(told).decode())
        return
    _print(found, most)


async def _live(kubeconfig: Path | None, context: str | None) -> Snapshot:
    from bosket.api.core import Node, Pod
    from bosket.kube.kubeconfig import connect
    from bosket.scheduler.state.cluster_state import ClusterState

    client = connect(kubeconfig, context)
    try:
        nodes, pods = await asyncio.gather(client.list(Node), client.list(Pod))
    finally:
        await client.aclose()
    state = ClusterState(report=complain)
    for node in nodes.items:
        state.put(node)
    for pod in pods.items:
        state.put(pod)
    return state.snapshot(time.time())


def _print(found: FragmentationReport, most: int) -> None:
    stdout().print(
        f"{found.gpus:.10g} GPUs, {found.free:.10g} free, {found.fragmented:.4g} of these fragmented: "
        f"{found.share(found.fragmented):.1%} of all"
    )
    stdout().print()
    rows = [
        (each.shape, f"{each.part:.1%}", f"{each.fragmented:.4g}", f"{found.share(each.fragmented):.1%}")
        for each in found.shapes[:most]
    ]
    columns = ("shape", "of pods", "fragmented", "of all GPUs")
    title = f"Shapes of pods ({len(rows)} of {len(found.shapes)})"
    stdout().print(table(title, columns, rows, numbers=columns[1:]))
    stdout().print()
    worst = sorted(found.nodes, key=lambda each: -each.fragmented)[:most]
    columns = ("node", "GPUs", "free", "fragmented")
    lines = [(each.name, f"{each.gpus:.10g}", f"{each.free:.4g}", f"{each.fragmented:.4g}") for each in worst]
    title = f"Nodes with free GPUs ({len(lines)} of {len(found.nodes)})"
    stdout().print(table(title, columns, lines, numbers=columns[1:]))
