"""Budgets: which pods disruption budgets allow to be evicted now, and how many of them.

`decide` avoids pods whose budget is used up, and counts within a cycle what it takes from a budget, so that refusals by
the API server are rare. The rules are those of the eviction API: a pod that isn't running, or is terminating, needs no
permission; a pod that isn't ready may need none; a pod with two budgets can't be evicted at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bosket.api.condition import has_condition
from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.kube.selector import InvalidSelector, Selector, label_selector


@dataclass(frozen=True, slots=True, eq=False)
class Disruptions:
    """What `decide` knows about disruption budgets."""

    #: pods that can't be evicted now, with what refuses them
    protected: Mapping[ObjectKey, str] = field(default_factory=dict)
    budget_of: Mapping[ObjectKey, ObjectKey] = field(default_factory=dict)  #: pod → the budget that counts its eviction
    #: by budget: how many more of its pods may be evicted
    allowed: Mapping[ObjectKey, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.protected or self.budget_of)


class Budgets:
    """All disruption budgets, and the pods that they guard. `pods` is a table of the caller, which reports changes of
    it."""

    def __init__(self, pods: Mapping[ObjectKey, Pod]) -> None:
        self._pods = pods
        self.known: dict[ObjectKey, PodDisruptionBudget] = {}
        self._selectors: dict[ObjectKey, Selector] = {}
        self._in_namespace: dict[str, set[ObjectKey]] = {}
        self._guards: dict[ObjectKey, tuple[ObjectKey, ...]] = {}  # pod → its budgets, by labels alone
        self._guarded: dict[ObjectKey, set[ObjectKey]] = {}  # budget → its pods
        self._budget_of: dict[ObjectKey, ObjectKey] = {}
        self._guarded_twice: dict[ObjectKey, str] = {}
        self.version = 0  #: changes whenever the set of evictable pods may have changed

    def put(self, budget: PodDisruptionBudget) -> Iterable[ObjectKey]:
        """The pods of the budget, if what the budget allows changed: an earlier refusal may no longer hold."""
        key = budget.key
        before = self.known.get(key)
        self.known[key] = budget
        if before is None or before.spec.selector != budget.spec.selector:
            self._in_namespace.setdefault(key.namespace, set()).add(key)
            self._selectors[key] = _selector(budget)
            self._match_namespace(key.namespace)
        elif before.spec == budget.spec and before.status == budget.status:
            return ()
        self.version += 1
        guarded = tuple(self._guarded.get(key, ()))
        for pod in guarded:
            self._assess(pod)
        return guarded

    def drop(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """The pods that it guarded."""
        if self.known.pop(key, None) is None:
            return ()
        del self._selectors[key]
        self._in_namespace[key.namespace].discard(key)
        guarded = tuple(self._guarded.get(key, ()))
        self._match_namespace(key.namespace)
        return guarded

    def see(self, pod: Pod, before: Pod | None) -> None:
        """A pod is new or changed."""
        if not self._in_namespace.get(pod.metadata.namespace):
            return
        if before is None or before.metadata.labels != pod.metadata.labels:
            self._match(pod)
        if pod.key in self._guards:
            self._assess(pod.key)

    def forget(self, pod: ObjectKey) -> None:
        self._set_guards(pod, ())

    def budget_of(self, pod: ObjectKey) -> ObjectKey | None:
        """The budget that guards the pod, whether or not it has anything to say now."""
        guards = self._guards.get(pod)
        return guards[0] if guards else None

    def view(self, refused: Mapping[ObjectKey, str], going: Iterable[ObjectKey]) -> Disruptions:
        """`refused`: pods whose eviction was refused lately; `going`: pods whose eviction isn't observed yet."""
        allowed = {key: _allowed(budget) for key, budget in self.known.items()}
        for pod in going:  # evictions that the budget's status doesn't count yet
            budget = self._budget_of.get(pod)
            if budget is not None and pod.name not in self.known[budget].status.disruptedPods:
                allowed[budget] -= 1
        return Disruptions({**self._guarded_twice, **refused}, dict(self._budget_of), allowed)

    def _match_namespace(self, namespace: str) -> None:
        for key, pod in self._pods.items():
            if key.namespace == namespace:
                self._match(pod)

    def _match(self, pod: Pod) -> None:
        budgets = sorted(self._in_namespace.get(pod.metadata.namespace, ()))
        labels = pod.metadata.labels
        self._set_guards(pod.key, tuple(key for key in budgets if self._selectors[key].matches(labels)))

    def _set_guards(self, pod: ObjectKey, guards: tuple[ObjectKey, ...]) -> None:
        before = self._guards.pop(pod, ())
        if guards:
            self._guards[pod] = guards
        if before != guards:
            for budget in before:
                self._guarded[budget].discard(pod)
            for budget in guards:
                self._guarded.setdefault(budget, set()).add(pod)
            self._assess(pod)

    def _assess(self, pod: ObjectKey) -> None:
        """Recomputes which budget guards the pod's eviction, or why no eviction is possible."""
        before = self._budget_of.pop(pod, None), self._guarded_twice.pop(pod, None)
        guards = self._guards.get(pod, ())
        if guards and _needs_permission(self._pods[pod]):
            if len(guards) > 1:
                names = " and ".join(map(str, guards))
                self._guarded_twice[pod] = f"PodDisruptionBudgets {names}: a pod with more than one can't be evicted"
            elif not _is_exempt(self._pods[pod], self.known[guards[0]]):
                self._budget_of[pod] = guards[0]
        if before != (self._budget_of.get(pod), self._guarded_twice.get(pod)):
            self.version += 1


def _selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return label_selector(budget.spec.selector)
    except InvalidSelector:  # API servers refuse unreadable selectors
        return label_selector(None)


def _needs_permission(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is None and pod.status.phase not in ("Pending", "Succeeded", "Failed", "")


def _is_exempt(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether a pod that isn't ready may be evicted whatever the budget allows."""
    if has_condition(pod.status.conditions, "Ready"):
        return False
    status = budget.status
    always = budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow"
    return always or status.currentHealthy >= status.desiredHealthy > 0


def _allowed(budget: PodDisruptionBudget) -> int:
    """The disruptions that the status allows; 0 while its controller has not counted for the present spec, because the
    API server refuses until then."""
    is_counted = budget.status.observedGeneration >= budget.metadata.generation
    return max(0, budget.status.disruptionsAllowed) if is_counted else 0
