"""Plugin snapshot: `GET /get-snapshot`, the live state as a file for `bosket replay` and KAI's snapshot tool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from bosket.kube.client import Client
from bosket.kube.errors import KubeError
from bosket.runtime.local_server import Answer
from bosket.scheduler.framework.endpoint import Endpoint, Insight
from bosket.scheduler.recording.writer import zipped

_log = logging.getLogger(__name__)


class Snapshot(Endpoint):
    """Gives the file out, without what is secret in it."""

    path: ClassVar = "/get-snapshot"

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    async def answer(self, insight: Insight) -> Answer:
        discovery = await _discovery(insight.client)
        recorded = insight.record()
        body = await asyncio.to_thread(zipped, recorded, discovery)
        return Answer(body, "application/zip", file_name="snapshot.zip")


async def _discovery(client: Client) -> dict[str, Any] | None:
    """The API server's version and kinds, in Go's form; a snapshot can do without."""
    try:
        version = msgspec.json.decode((await client.raw("GET", "/version")).body)
        resources = await client.discover()
    except (KubeError, msgspec.DecodeError) as error:
        _log.warning("the snapshot is made without the API server's version and kinds: %s", error)
        return None
    lists: dict[str, list[dict[str, Any]]] = {}
    for each in resources:
        entry = {"name": each.plural, "namespaced": each.namespaced, "kind": each.kind}
        lists.setdefault(each.api_version, []).append(entry)
    return {
        "serverVersion": version,
        "resources": [{"groupVersion": name, "resources": entries} for name, entries in lists.items()],
    }
