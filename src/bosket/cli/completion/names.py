"""Names of queues, jobs, namespaces and the like, for completion: quickly, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bosket.kube.client import Client

#: Somebody waits in the middle of a line.
_SECONDS: Final = 3.0


def names_of(
    kind: str, typed: str, *, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> dict[str, str]:
    """What there is of the kind, with what each is. `typed`: the beginning of the name."""
    if kind == "context":
        return _contexts(kubeconfig)
    if kind == "service":
        return _services()
    return asyncio.run(_ask(kind, typed, kubeconfig, context, namespace))


def _contexts(kubeconfig: Path | None) -> dict[str, str]:
    from bosket.kube.kubeconfig import kubeconfig_files
    from bosket.kube.kubeconfig_file import read

    merged = read([each for each in kubeconfig_files(kubeconfig) if each.exists()])
    return {name: each.entry.cluster for name, each in sorted(merged.contexts.items())}


def _services() -> dict[str, str]:
    from bosket.embedded.services import PROGRAMS, SERVICES

    return {**{each.name: each.purpose for each in SERVICES.values()}, **dict(PROGRAMS)}


async def _ask(
    kind: str, typed: str, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> dict[str, str]:
    from bosket.kube.client import Client
    from bosket.kube.http import HttpTransport
    from bosket.kube.kubeconfig import find

    config = find(kubeconfig, context)
    client = Client(HttpTransport(config, timeout_seconds=_SECONDS, connect_timeout_seconds=_SECONDS))
    try:
        if kind == "job":
            return await _jobs(client, typed, namespace or config.namespace, is_named=namespace is not None)
        return await _cluster_wide(client, kind)
    finally:
        await client.aclose()


async def _cluster_wide(client: Client, kind: str) -> dict[str, str]:
    from bosket.api.core import Namespace
    from bosket.api.kai import Queue, SchedulingShard, Topology
    from bosket.kube.codec import metadata_of

    kinds: dict[str, Any] = {
        "queue": Queue,
        "namespace": Namespace,
        "shard": SchedulingShard,
        "topology": Topology,
    }
    items = (await client.list(metadata_of(kinds[kind]))).items
    return dict.fromkeys(sorted(each.metadata.name for each in items), "")


async def _jobs(client: Client, typed: str, namespace: str, *, is_named: bool) -> dict[str, str]:
    """Jobs of the namespace by their names, those of other namespaces as NAMESPACE/NAME."""
    from bosket.api.kai import PodGroup
    from bosket.kube.errors import Forbidden
    from bosket.scheduler.answers.workload_name import shown_names

    try:
        items = (await client.list(PodGroup, namespace if is_named else None)).items
    except Forbidden:
        items = (await client.list(PodGroup, namespace)).items
    names = shown_names(items)
    found: dict[str, str] = {}
    for group in sorted(items, key=lambda each: (each.metadata.namespace != namespace, each.key)):
        name, within = names[group.key], group.metadata.namespace
        is_here = within == namespace and not typed.startswith(f"{within}/")
        found[name if is_here else f"{within}/{name}"] = f"queue {group.spec.queue}"
    return found
