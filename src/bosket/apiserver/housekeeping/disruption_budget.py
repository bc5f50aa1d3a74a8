"""Disruption budgets: how many of the pods they guard may go, counted from what is there.

Eviction counts here and now, so that it never decides on yesterday's numbers; the controller below keeps the status of
budgets up to date for those who look.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from bosket.api.object import LabelSelector
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.objects.status_condition import find_condition, set_condition
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.store.resource_store import Event, ResourceStore, WholeStore
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Writer, own_write
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller

_CONTROLLER = "disruption-controller"


def budgets_of(budgets: ResourceStore, namespace: str, labels: dict[str, str]) -> list[Entry]:
    """The budgets that guard a pod with these labels."""
    return [entry for entry in budgets.entries(namespace) if _selects(entry.decode(), labels)]


class NotCountable(Exception):
    """It can't be said how many pods there should be; until it can, none may go."""


def count_budget(budget: Doc, pods: ResourceStore) -> dict[str, Any]:
    """The numbers of a budget's status.

    Pods without a controller count only where the budget names a number of pods that must be there: a share of them,
    or how many may be missing, says nothing as long as nobody knows how many there should be.
    """
    try:
        selector = _selector(budget)
    except InvalidSelector as error:
        raise NotCountable(str(error)) from None
    guarded = [
        entry.decode() for entry in pods.entries(budget["metadata"]["namespace"]) if selector.matches(entry.labels)
    ]
    healthy = sum(1 for pod in guarded if is_ready(pod) and "deletionTimestamp" not in pod["metadata"])
    spec = budget.get("spec") or {}
    if "maxUnavailable" in spec:
        expected = _expected(guarded, pods.store)
        desired = max(0, expected - _portion(spec["maxUnavailable"], expected))
    elif isinstance(wanted := spec.get("minAvailable", 0), int):
        expected, desired = len(guarded), wanted
    else:
        expected = _expected(guarded, pods.store)
        desired = _portion(wanted, expected)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        # None before there are pods: the first ones should be safe, too.
        "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
    }


def is_ready(pod: Doc) -> bool:
    """Whether a pod's Ready condition holds."""
    condition = find_condition(pod.get("status", {}).get("conditions"), "Ready")
    return condition is not None and condition.get("status") == "True"


def _selector(budget: Doc) -> Any:
    raw = budget.get("spec", {}).get("selector")
    return label_selector(None if raw is None else msgspec.convert(raw, LabelSelector))


def _selects(budget: Doc, labels: dict[str, str]) -> bool:
    try:
        return bool(_selector(budget).matches(labels))
    except (InvalidSelector, msgspec.ValidationError):
        return False


def _portion(value: int | str, whole: int) -> int:
    """A number, or a percentage of `whole` rounded up."""
    if isinstance(value, int):
        return value
    return math.ceil(int(value.removesuffix("%")) * whole / 100)


def _expected(pods: list[Doc], store: WholeStore) -> int:
    """How many pods there should be: what their controllers want."""
    wanted: dict[str, int] = {}
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences", ()) if each.get("controller")), None)
        if owner is None or owner["uid"] in wanted:
            continue
        found = store.find(owner["uid"])
        if found is None:
            raise NotCountable(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        resource_store, entry = found
        replicas = entry.decode().get("spec", {}).get("replicas")
        if not isinstance(replicas, int):
            raise NotCountable(f"{resource_store.resource} does not implement the scale subresource")
        wanted[owner["uid"]] = replicas
    return sum(wanted.values())


class DisruptionController:
    """Keeps the status of budgets. Keys are their namespaces and names."""

    def __init__(
        self, clock: Clock, store: Store, registry: Registry, writer: Writer, *, metrics: CollectorRegistry
    ) -> None:
        self.controller: Controller[tuple[str, str]] = Controller(
            "disruption", self._reconcile, clock=clock, metrics=metrics
        )
        self._queue = self.controller.queue
        self._registry = registry
        self._writer = writer
        self._budgets = store.resource("policy", "poddisruptionbudgets")
        self._pods = store.resource("", "pods")
        self._budgets.listen(self._on_budget)
        self._pods.listen(self._on_pod)

    def _on_budget(self, event: Event) -> None:
        if event.type != "DELETED":
            self._queue.add((event.entry.namespace, event.entry.name))

    def _on_pod(self, event: Event) -> None:
        if not len(self._budgets):
            return
        labels = [event.entry.labels]
        if event.previous is not None and event.previous.labels != event.entry.labels:
            labels.append(event.previous.labels)
        for each in labels:
            for budget in budgets_of(self._budgets, event.entry.namespace, each):
                self._queue.add((budget.namespace, budget.name))

    async def _reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        kind = self._registry.at("policy", "poddisruptionbudgets")
        if kind is None or self._budgets.get(namespace, name) is None:
            return
        now = self._writer.now()

        def change(budget: Doc) -> Doc:
            generation = budget["metadata"].get("generation", 1)
            status = budget.setdefault("status", {})
            try:
                status |= count_budget(budget, self._pods) | {"observedGeneration": generation}
            except NotCountable as error:
                status |= {"disruptionsAllowed": 0}
                reason, message = "SyncFailed", str(error)
            else:
                reason, message = ("SufficientPods" if status["disruptionsAllowed"] > 0 else "InsufficientPods"), ""
            status.pop("disruptedPods", None)  # they are marked by now, and counted as such
            condition = {
                "type": "DisruptionAllowed",
                "status": "True" if reason == "SufficientPods" else "False",
                "reason": reason,
                "message": message,
                "observedGeneration": status.get("observedGeneration", 0),
            }
            set_condition(status.setdefault("conditions", []), condition, now)
            return budget

        await self._writer.update(own_write(kind, namespace, _CONTROLLER), name, change)
