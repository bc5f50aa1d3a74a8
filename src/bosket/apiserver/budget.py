"""Disruption budgets: how many of the pods they guard may go, counted from what is there.

Eviction counts here and now, so that it never decides on yesterday's numbers; the chore below keeps the status of
budgets up to date for those who look.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.chore import Chore
from bosket.apiserver.conditions import find_condition, set_condition
from bosket.apiserver.gc import own_write
from bosket.apiserver.kind import Registry
from bosket.apiserver.store import Doc, Entry, Event, Shelf, Store
from bosket.apiserver.write import Writer
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.runtime.clock import Clock

_CONTROLLER = "disruption-controller"


def budgets_of(budgets: Shelf, namespace: str, labels: dict[str, str]) -> list[Entry]:
    """The budgets that guard a pod with these labels."""
    return [entry for entry in budgets.entries(namespace) if _selects(entry.decode(), labels)]


def count_budget(budget: Doc, pods: Shelf) -> dict[str, Any]:
    """The numbers of a budget's status."""
    selector = _selector(budget)
    guarded = [
        entry.decode() for entry in pods.entries(budget["metadata"]["namespace"]) if selector.matches(entry.labels)
    ]
    alive = [pod for pod in guarded if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
    healthy = sum(1 for pod in alive if is_ready(pod) and "deletionTimestamp" not in pod["metadata"])
    expected = _expected(alive, pods.store)
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        desired = expected - _portion(spec["maxUnavailable"], expected)
    else:
        desired = _portion(spec.get("minAvailable", 1), expected)
    desired = max(0, desired)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(0, healthy - desired),
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


def _expected(pods: list[Doc], store: Store) -> int:
    """How many pods there should be: what their controllers want, and one for each that has none."""
    controllers: dict[str, int] = {}
    loose = 0
    for pod in pods:
        owner = next((each for each in pod["metadata"].get("ownerReferences", ()) if each.get("controller")), None)
        found = store.find(owner["uid"]) if owner else None
        if owner is None or found is None:
            loose += 1
            continue
        replicas = found[1].decode().get("spec", {}).get("replicas")
        if isinstance(replicas, int):
            controllers[owner["uid"]] = replicas
        else:
            controllers[owner["uid"]] = controllers.get(owner["uid"], 0) + 1
    return loose + sum(controllers.values())


class BudgetCounter(Chore[tuple[str, str]]):
    """Keeps the status of budgets. Keys are their namespaces and names."""

    def __init__(self, clock: Clock, store: Store, registry: Registry, writer: Writer) -> None:
        super().__init__(clock)
        self._registry = registry
        self._writer = writer
        self._budgets = store.shelf("policy", "poddisruptionbudgets")
        self._pods = store.shelf("", "pods")
        self._budgets.listen(self._on_budget)
        self._pods.listen(self._on_pod)

    def _on_budget(self, event: Event) -> None:
        if event.type != "DELETED":
            self.add((event.entry.namespace, event.entry.name))

    def _on_pod(self, event: Event) -> None:
        if not len(self._budgets):
            return
        labels = [event.entry.labels]
        if event.previous is not None and event.previous.labels != event.entry.labels:
            labels.append(event.previous.labels)
        for each in labels:
            for budget in budgets_of(self._budgets, event.entry.namespace, each):
                self.add((budget.namespace, budget.name))

    async def handle(self, key: tuple[str, str]) -> None:
        namespace, name = key
        kind = self._registry.at("policy", "poddisruptionbudgets")
        if kind is None or self._budgets.get(namespace, name) is None:
            return
        now = self._writer.now()

        def change(budget: Doc) -> Doc:
            counted = count_budget(budget, self._pods)
            status = budget.get("status") or {}
            conditions = status.get("conditions", [])
            allowed = counted["disruptionsAllowed"] > 0
            condition = {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
                "observedGeneration": budget["metadata"].get("generation", 1),
            }
            set_condition(conditions, condition, now)
            budget["status"] = {
                **counted,
                "observedGeneration": budget["metadata"].get("generation", 1),
                "conditions": conditions,
            }
            return budget

        await self._writer.update(own_write(kind, namespace, _CONTROLLER), name, change)
