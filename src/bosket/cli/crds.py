"""`bosket crds`: the CustomResourceDefinitions of the kinds that Bosket works with, and what goes with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bosket.cli.output import Flag, flush_line
from bosket.cli.path import OptionalFilePath


def crds(
    *,
    install: Flag = False,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    json: Flag = False,
) -> None:
    """Print the CustomResourceDefinitions of KAI's and Grove's kinds as YAML, or make a cluster ready for Bosket.

    Parameters
    ----------
    install
        Create or update them in the cluster instead of printing them, and create what else the services need where it
        is missing: the namespace kai-scheduler, the priority classes, the default queues.
    kubeconfig
        With --install: which cluster; by default as kubectl finds it.
    context
        With --install: a context of the kubeconfig other than the current one.
    json
        Print one JSON List instead of YAML documents.
    """
    from bosket.api.crd import crd_manifests
    from bosket.install.chart import as_yaml

    if install:
        asyncio.run(_install(kubeconfig, context))
        return
    manifests = crd_manifests()
    if json:
        import msgspec

        flush_line(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests}).decode())
    else:
        flush_line(as_yaml(manifests).rstrip())


async def _install(kubeconfig: Path | None, context: str | None) -> None:
    from bosket.embedded.bootstrap import bootstrap
    from bosket.kube.kubeconfig import connect

    client = connect(kubeconfig, context)
    try:
        for each in await bootstrap(client):
            flush_line(f"{each.kind.lower()}/{each.name} {each.outcome}")
    finally:
        await client.aclose()
