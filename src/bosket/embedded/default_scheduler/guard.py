"""Two schedulers on the same nodes: whoever comes second to what is left of one decides anew.

Each scheduler counts what the other's bind requests take, but sees them a moment after they are written. In between it
may give the same room away, and the kubelet would fail the pod. Here the API server looks once more when a bind request
is created: bind requests are created one after the other, so one of the two is refused, and its pod waits for the next
cycle. It costs nothing while the default scheduler has nothing to do.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from bosket.api.core import Node, Pod
from bosket.api.quantity import to_milli
from bosket.apiserver.status import conflict
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Write
from bosket.embedded.admission import Amounts, pod_requests

_GROUP: Final = "scheduling.run.ai"
_PLURAL: Final = "bindrequests"
_ENDED: Final = ("Succeeded", "Failed")
#: Of so many pods it is remembered what they take.
_MOST_REMEMBERED: Final = 50_000

_PodKey = tuple[str, str]


class BindGuard:
    """Refuses bind requests that nodes have no room for; a member of the server's admission."""

    def __init__(self, store: Store) -> None:
        self._pods = store.resource("", "pods")
        self._nodes = store.resource("", "nodes", namespaced=False)
        self._requests = store.resource(_GROUP, _PLURAL)
        self._is_active = False
        self._promised: defaultdict[str, set[_PodKey]] = defaultdict(
            set
        )  # by node: pods with a request and no node yet
        self._amounts: dict[str, Amounts] = {}  # by the pod's uid

    def activate(self) -> None:
        """From now on there are two schedulers."""
        self._is_active = True
        for request in self._requests.entries():
            spec = request.decode()["spec"]
            self._promised[spec.get("selectedNode", "")].add((request.namespace, spec.get("podName", "")))

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if not self._is_active or old is not None or write.dry_run:
            return
        if (write.kind.group, write.kind.plural) != (_GROUP, _PLURAL):
            return
        spec = new["spec"]
        node, pod = spec.get("selectedNode", ""), (write.namespace, spec.get("podName", ""))
        lacking = self._lacking(node, pod)
        if lacking:
            raise conflict(_GROUP, _PLURAL, new["metadata"].get("name", ""), lacking)
        self._promised[node].add(pod)

    def _lacking(self, node: str, pod: _PodKey) -> str:
        """What of the node's somebody else was given meanwhile; empty: nothing."""
        found, asking = self._nodes.get("", node), self._pods.get(*pod)
        if found is None or asking is None or asking.fields.get("spec.nodeName"):
            return ""  # for others to say
        taken: Amounts = {}
        residents = [each for each in self._pods.entries(indexed=node) if each.fields.get("status.phase") not in _ENDED]
        for entry in (*residents, *self._waiting(node, pod)):
            for resource, amount in self._amounts_of(entry).items():
                taken[resource] = taken.get(resource, 0) + amount
        allocatable = msgspec.convert(found.decode(), Node).status.allocatable
        for resource, amount in sorted(self._amounts_of(asking).items()):
            left = to_milli(allocatable.get(resource, 0)) - taken.get(resource, 0)
            if amount > max(left, 0):
                return f"node {node} has {left / 1000:g} of {resource} left, pod {pod[1]} asks for {amount / 1000:g}"
        return ""

    def _waiting(self, node: str, asking: _PodKey) -> list[Entry]:
        """Pods that were promised the node and aren't bound yet."""
        waiting = []
        for pod in list(self._promised[node]):
            entry, request = self._pods.get(*pod), self._requests.get(*pod)
            if entry is None or request is None or entry.fields.get("spec.nodeName") or _has_failed(request):
                self._promised[node].discard(pod)
            elif pod != asking:
                waiting.append(entry)
        return waiting

    def _amounts_of(self, entry: Entry) -> Amounts:
        known = self._amounts.get(entry.uid)
        if known is None:
            if len(self._amounts) >= _MOST_REMEMBERED:
                self._amounts.clear()
            known = self._amounts[entry.uid] = pod_requests(msgspec.convert(entry.decode(), Pod))
        return known


def _has_failed(request: Entry) -> bool:
    return bool(request.decode().get("status", {}).get("phase") == "Failed")
