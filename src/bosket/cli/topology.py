"""`bosket topology`: the domains of topologies, with what is free in each and the largest gang that would fit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, stdout, table
from bosket.cli.path import OptionalFilePath

if TYPE_CHECKING:
    from bosket.kube.client import Client
    from bosket.scheduler.answers.topology import Domain, TopologyReport
    from bosket.scheduler.model.snapshot import Snapshot
    from bosket.scheduler.model.topology import TopologyTree

_NotNegative = Annotated[float, Parameter(validator=Number(gte=0))]
_COLUMNS = ("domain", "level", "nodes", "GPUs", "used", "free", "CPUs free", "GiB free", "gang")
#: So many nodes that belong to no topology are named.
_MOST_NAMED = 5


def topology(
    file: OptionalFilePath = None,
    /,
    *,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    topology: str | None = None,
    level: str | None = None,
    gpus: Annotated[int, Parameter(validator=Number(gte=0))] = 1,
    cpus: _NotNegative = 0.0,
    memory_gib: _NotNegative = 0.0,
    json: Flag = False,
) -> None:
    """Show the domains of Topologies as a tree: nodes, what is used and free, and the largest gang that could start.

    Parameters
    ----------
    file
        A snapshot (snapshot.zip, or the snapshot.json that is in it); by default the cluster of your kubeconfig.
    kubeconfig
        Which cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    topology
        Only the Topology of this name.
    level
        Show domains down to this level, by its node label or its alias.
    gpus
        GPUs of each pod of the gang.
    cpus
        CPUs of each pod of the gang.
    memory_gib
        Memory of each pod of the gang, in GiB.
    json
        Print everything as one JSON object.
    """
    from bosket.scheduler.answers.topology import report

    if file is not None and (kubeconfig is not None or context is not None):
        raise UsageError("a snapshot file and --kubeconfig or --context were given: which of them?")
    snapshot = recorded_snapshot(file) if file is not None else asyncio.run(_live(kubeconfig, context))
    trees = _chosen(snapshot, topology)
    depths = [_depth(tree, level) for tree in trees]
    if level is not None and all(depth is None for depth in depths):
        known = ", ".join(dict.fromkeys(label for tree in trees for label in tree.labels))
        raise UsageError(f"--level {level}: no such level; there are {known}")
    pod = {"gpus": float(gpus), "cpus": cpus, "memory_gib": memory_gib}
    reports = [report(snapshot, tree, pod, depth) for tree, depth in zip(trees, depths, strict=True)]
    if json:
        import msgspec

        flush_line(msgspec.json.encode({"pod": pod, "topologies": [asdict(each) for each in reports]}).decode())
        return
    for each in reports:
        _print(each, pod)


def recorded_snapshot(file: Path) -> Snapshot:
    """The cluster as a snapshot file has it; unreadable parts are reported."""
    from bosket.scheduler.recording.recorded import RecordedError, load

    try:
        recorded = load(file)
    except RecordedError as error:
        raise CommandError(str(error)) from error
    for problem in recorded.unreadable:
        complain(problem)
    return recorded.snapshot(recorded.now if recorded.now is not None else time.time())


async def _live(kubeconfig: Path | None, context: str | None) -> Snapshot:
    from bosket.kube.errors import NotFound
    from bosket.kube.kubeconfig import connect

    client = connect(kubeconfig, context)
    try:
        return await _read(client)
    except NotFound as error:
        raise CommandError("the cluster knows no Topologies; bosket crds --install makes it know them") from error
    finally:
        await client.aclose()


async def _read(client: Client) -> Snapshot:
    from bosket.api.core import Node, Pod
    from bosket.api.kai import BindRequest, Topology
    from bosket.scheduler.state.cluster_state import ClusterState

    state = ClusterState(report=complain)
    topologies, nodes, requests, pods = await asyncio.gather(
        client.list(Topology), client.list(Node), client.list(BindRequest), client.list(Pod)
    )
    for topology in topologies.items:
        state.put(topology)
    for node in nodes.items:
        state.put(node)
    for request in requests.items:
        state.put(request)
    for pod in pods.items:
        state.put(pod)
    return state.snapshot(time.time())


def _chosen(snapshot: Snapshot, name: str | None) -> list[TopologyTree]:
    trees = snapshot.topologies
    if not trees:
        raise CommandError("there are no Topologies")
    if name is None:
        return list(trees.values())
    if name not in trees:
        raise CommandError(f"--topology {name}: there is no such Topology; there are {', '.join(trees)}")
    return [trees[name]]


def _depth(tree: TopologyTree, level: str | None) -> int | None:
    return tree.number_of(level) if level is not None else None


def _print(report: TopologyReport, pod: dict[str, float]) -> None:
    rows = list(_rows(report.root, 0))
    asked = {"gpus": "GPU", "cpus": "CPU", "memory_gib": "GiB"}
    each = ", ".join(f"{amount:g} {asked[name]}" for name, amount in pod.items() if amount) or "nothing"
    title = f"Topology {report.name} (gang: of pods with {each} each)"
    numbers = tuple(column for column in _COLUMNS if column not in ("domain", "level"))
    stdout().print(table(title, _COLUMNS, rows, numbers=numbers))
    if report.outside:
        named = [f"{node} lacks {', '.join(labels)}" for node, labels in list(report.outside.items())[:_MOST_NAMED]]
        more = len(report.outside) - len(named)
        others = f"; and {more} more" if more else ""
        stdout().print(f"{len(report.outside)} nodes don't belong to it: {'; '.join(named)}{others}")
    stdout().print()


def _rows(domain: Domain, depth: int) -> Iterator[tuple[str, ...]]:
    gpus, cpus, memory = (domain.amounts[name] for name in ("gpus", "cpus", "memory_gib"))
    nodes = str(domain.nodes) if domain.taking == domain.nodes else f"{domain.taking} of {domain.nodes}"
    amounts = (gpus.total, gpus.used, gpus.free, cpus.free, memory.free)
    yield ("  " * depth + domain.name, domain.level, nodes, *(f"{amount:.10g}" for amount in amounts), str(domain.gang))
    for each in domain.domains:
        yield from _rows(each, depth + 1)
