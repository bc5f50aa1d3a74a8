"""What was written to an embedded cluster, by verb and resource, as its server counts it."""

from __future__ import annotations

import re
from collections import Counter

from bosket.kube.client import Client

_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
_LINE = re.compile(r"^apiserver_request_total\{(.*)\} (\d+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
#: written by the clock, and not about sets
_IGNORED = frozenset({"leases", "events"})


async def count_writes(client: Client) -> Counter[str]:
    """`PATCH podcliques/status` and so on, with how often that was asked for; ` 409` behind what was refused so."""
    counts: Counter[str] = Counter()
    for line in _LINE.finditer(await _metrics(client)):
        about = dict(_LABEL.findall(line[1]))
        if about["verb"] not in _WRITES or about["resource"] in _IGNORED:
            continue
        subresource = f"/{about['subresource']}" if about["subresource"] else ""
        refused = f" {about['code']}" if int(about["code"]) >= 400 else ""
        counts[f"{about['verb']} {about['resource']}{subresource}{refused}"] += int(line[2])
    return counts


async def _metrics(client: Client) -> str:
    return (await client.raw("GET", "/metrics")).body.decode()
