"""What the server counts about itself, under kube-apiserver's names and with its labels."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from bosket.apiserver.handlers.reading import Reader
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.store.store import Store

#: Upper bounds of the buckets of durations, in seconds.
_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
_VERBS = {"create": "POST", "update": "PUT", "patch": "PATCH", "apply": "APPLY"}
#: verb, group, version, resource, subresource, scope
_About = tuple[str, str, str, str, str, str]
_NAMES = ("verb", "group", "version", "resource", "subresource", "scope")


class _Durations:
    """How long requests of one kind took."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


class RequestMetrics:
    """Counts requests; objects and watches are counted when somebody asks."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._requests: Counter[tuple[_About, int, str]] = Counter()
        self._durations: dict[_About, _Durations] = {}
        #: requests that are being answered, by whether they write
        self.in_flight = {"mutating": 0, "readOnly": 0}

    def count(self, request: ResourceRequest, code: int, seconds: float) -> None:
        """A request was answered."""
        about = _about(request)
        self._requests[about, code, "All" if request.dry_run else ""] += 1
        if request.verb == "watch":
            return  # which has only begun
        durations = self._durations.get(about)
        if durations is None:
            durations = self._durations[about] = _Durations()
        durations.add(seconds)

    def expose(self) -> bytes:
        """In Prometheus' text format."""
        return ("\n".join(self._lines()) + "\n").encode()

    def _lines(self) -> Iterator[str]:
        yield from _head("apiserver_request_total", "counter", "Requests by verb, resource and answer.")
        for (about, code, dry_run), count in sorted(self._requests.items()):
            labels = _labels([*zip(_NAMES, about, strict=True), ("code", str(code)), ("dry_run", dry_run)])
            yield f"apiserver_request_total{{{labels}}} {count}"
        yield from _head("apiserver_request_duration_seconds", "histogram", "How long answers took, without watches.")
        for about, durations in sorted(self._durations.items()):
            yield from _histogram("apiserver_request_duration_seconds", about, durations)
        yield from _head("apiserver_current_inflight_requests", "gauge", "Requests that are being answered.")
        for kind, count in self.in_flight.items():
            yield f'apiserver_current_inflight_requests{{request_kind="{kind}"}} {count}'
        for name in ("apiserver_storage_objects", "apiserver_resource_objects"):
            yield from _head(name, "gauge", "Stored objects by resource.")
            for resource_store in self._store.resources.values():
                group = f'group="{resource_store.group}",' if name == "apiserver_resource_objects" else ""
                resource = resource_store.plural if group else resource_store.resource
                yield f'{name}{{{group}resource="{resource}"}} {len(resource_store)}'
        yield from _head("apiserver_longrunning_requests", "gauge", "Watches under way.")
        yield f'apiserver_longrunning_requests{{component="apiserver",verb="WATCH"}} {len(self._reader.watchers)}'
        yield from _head("apiserver_terminated_watchers_total", "counter", "Watches whose client did not keep up.")
        yield f"apiserver_terminated_watchers_total {self._reader.dropped_watchers}"


def _about(request: ResourceRequest) -> _About:
    verb = (
        "APPLY"
        if request.verb == "patch" and "apply-patch" in request.headers.get("content-type", "")
        else request.verb
    )
    scope = "resource" if request.name else "namespace" if request.namespace else "cluster"
    return (
        _VERBS.get(verb, verb.upper()),
        request.kind.group,
        request.version.name,
        request.kind.plural,
        request.subresource,
        scope,
    )


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in [("component", "apiserver"), *pairs])


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _histogram(name: str, about: _About, durations: _Durations) -> Iterator[str]:
    labels = _labels(zip(_NAMES, about, strict=True))
    count = 0
    for bound, here in zip((*map(str, _BUCKETS), "+Inf"), durations.counts, strict=True):
        count += here
        yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
    yield f"{name}_sum{{{labels}}} {durations.total}"
    yield f"{name}_count{{{labels}}} {count}"
