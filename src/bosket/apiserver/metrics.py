"""What the server counts about itself, under kube-apiserver's names."""

from __future__ import annotations

from collections import Counter

from bosket.apiserver.reading import Reader
from bosket.apiserver.store import Store


class RequestMetrics:
    """Counts requests; objects and watches are counted when somebody asks."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._requests: Counter[tuple[str, str, str, str, int]] = Counter()

    def count(self, verb: str, group: str, resource: str, subresource: str, code: int) -> None:
        self._requests[verb, group, resource, subresource, code] += 1

    @property
    def requests(self) -> Counter[tuple[str, str, str, str, int]]:
        """By verb, group, resource, subresource and status code."""
        return self._requests

    def expose(self) -> bytes:
        """In Prometheus' text format."""
        lines = [
            "# HELP apiserver_request_total Counter of apiserver requests.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, group, resource, subresource, code), count in sorted(self._requests.items()):
            labels = (
                f'verb="{verb.upper()}",group="{group}",resource="{resource}",subresource="{subresource}",code="{code}"'
            )
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        lines += [
            "# HELP apiserver_storage_objects Number of stored objects.",
            "# TYPE apiserver_storage_objects gauge",
        ]
        lines += [
            f'apiserver_storage_objects{{resource="{shelf.resource}"}} {len(shelf)}'
            for shelf in self._store.shelves.values()
        ]
        lines += [
            "# HELP apiserver_longrunning_requests Watches under way.",
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {len(self._reader.watchers)}',
            "# HELP apiserver_terminated_watchers_total Watches ended because the client did not keep up.",
            "# TYPE apiserver_terminated_watchers_total counter",
            f"apiserver_terminated_watchers_total {self._reader.dropped_watchers}",
        ]
        return ("\n".join(lines) + "\n").encode()
