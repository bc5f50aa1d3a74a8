"""`bosket crds`: the CustomResourceDefinitions of the kinds that Bosket works with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bosket.cli.output import Flag, flush_line
from bosket.cli.path import OptionalFilePath

if TYPE_CHECKING:
    from bosket.kube.client import Client


def crds(
    *,
    install: Flag = False,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    json: Flag = False,
) -> None:
    """Print the CustomResourceDefinitions of KAI's and Grove's kinds as YAML, or install them.

    Parameters
    ----------
    install
        Create or update them in the cluster instead of printing them.
    kubeconfig
        With --install: which cluster; by default as kubectl finds it.
    context
        With --install: a context of the kubeconfig other than the current one.
    json
        Print one JSON List instead of YAML documents.
    """
    from bosket.api.crd import crd_manifests

    manifests = crd_manifests()
    if install:
        asyncio.run(_install(manifests, kubeconfig, context))
    elif json:
        import msgspec

        flush_line(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests}).decode())
    else:
        flush_line(_as_yaml(manifests))


def _as_yaml(manifests: list[dict[str, Any]]) -> str:
    import yaml

    # The dumper in C is some ten times as fast; wheels have it, a build from source may not. What occurs twice is
    # written twice: not every tool follows references.
    fastest = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = type("PlainDumper", (fastest,), {"ignore_aliases": lambda _self, _data: True})
    return yaml.dump_all(manifests, Dumper=plain, sort_keys=False, explicit_start=True).rstrip()


async def _install(manifests: list[dict[str, Any]], kubeconfig: Path | None, context: str | None) -> None:
    from bosket.kube.kubeconfig import connect

    client = connect(kubeconfig, context)
    try:
        for manifest in manifests:
            flush_line(f"{manifest['metadata']['name']} {await _create_or_update(client, manifest)}")
    finally:
        await client.aclose()


async def _create_or_update(client: Client, manifest: dict[str, Any]) -> str:
    """What was done."""
    from bosket.api.apiextensions import CustomResourceDefinition
    from bosket.kube.errors import AlreadyExists

    try:
        await client.create(manifest)
    except AlreadyExists:
        await client.patch(CustomResourceDefinition, manifest["metadata"]["name"], {"spec": manifest["spec"]})
        return "updated"
    return "created"
