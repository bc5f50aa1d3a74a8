"""Evictions: pods that terminate by our own decision, and pods that can't be evicted now.

A pod terminates from the moment of the decision, as if the API server had deleted it already, so that the next cycle
doesn't evict more pods for the same job. A withdrawn eviction makes the pod running again. A refused pod backs off, or
until its disruption budget changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.scheduler.model.budgets import Budgets, Disruptions
from bosket.scheduler.state.own.memory import KeptEviction
from bosket.scheduler.state.own.pod_backoff import PodBackoffs


class _Assumed(NamedTuple):
    uid: str
    since: float
    action: str
    text: str


class Evictions:
    """Decided evictions that aren't observed yet, refused ones, and what disruption budgets allow."""

    def __init__(self, pods: Mapping[ObjectKey, Pod], *, honour_budgets: bool) -> None:
        """`pods` is a table of the caller, which reports changes of it."""
        self.assumed: dict[ObjectKey, _Assumed] = {}
        self.refusals = PodBackoffs()  #: of evictions
        self._budgets = Budgets(pods)
        self.budgets: Mapping[ObjectKey, PodDisruptionBudget] = self._budgets.known
        self._honour_budgets = honour_budgets
        self._view: tuple[object, Disruptions] = (None, Disruptions())

    # What is decided

    def assume(self, pod: ObjectKey, uid: str, now: float, action: str = "", text: str = "") -> None:
        """Counts a decided eviction; `action` and `text` say which action decided it and why."""
        self.assumed[pod] = _Assumed(uid, now, action, text)

    def withdraw(self, pod: ObjectKey) -> bool:
        """True when the eviction was still only assumed."""
        return self.assumed.pop(pod, None) is not None

    def refuse(self, pod: ObjectKey, uid: str, now: float, by: str) -> None:
        """The pod backs off; `by` names what refused it. The pod must exist."""
        self.refusals.add(pod, uid, now, by)

    # What is seen

    def see(self, key: ObjectKey, pod: Pod, before: Pod | None) -> None:
        """The watch showed a pod. A new pod matters only where there are disruption budgets."""
        self._budgets.see(pod, before)
        self.refusals.forget_unless(key, pod.metadata.uid)

    def forget(self, pod: ObjectKey) -> None:
        self.assumed.pop(pod, None)
        self._budgets.forget(pod)
        self.refusals.forget_unless(pod, None)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        self._try_again(self._budgets.put(budget))

    def drop_budget(self, key: ObjectKey) -> None:
        self._try_again(self._budgets.drop(key))

    def _try_again(self, pods: Iterable[ObjectKey]) -> None:
        for pod in pods:
            self.refusals.forget_unless(pod, None)

    # What is asked

    def is_going(self, pod: Pod) -> bool:
        """Whether the pod's eviction is still only assumed; False for a successor of the same name."""
        found = self.assumed.get(pod.key) if self.assumed else None
        if found is None:
            return False
        if found.uid != pod.metadata.uid or pod.metadata.deletionTimestamp is not None:
            del self.assumed[pod.key]
            return False
        return True

    def going_since(self, pod: ObjectKey) -> float | None:
        found = self.assumed.get(pod)
        return found.since if found is not None else None

    def going(self) -> tuple[ObjectKey, ...]:
        """Pods whose eviction isn't observed yet."""
        return tuple(sorted(self.assumed))

    def entries(self) -> tuple[KeptEviction, ...]:
        """Evictions that aren't observed yet, in order."""
        return tuple(KeptEviction(pod, *assumed) for pod, assumed in sorted(self.assumed.items()))

    def refused(self, now: float) -> dict[ObjectKey, str]:
        """Pods whose eviction was refused a short while ago, and by what."""
        return self.refusals.refused(now)

    def budget_of(self, pod: ObjectKey) -> ObjectKey | None:
        return self._budgets.budget_of(pod)

    def disruptions(self, now: float) -> Disruptions:
        """Which pods may be evicted; the same object while nothing changed."""
        if self._honour_budgets:
            refused, going = self.refused(now), self.going()
            basis = (self._budgets.version, refused, going)
            if basis != self._view[0]:
                self._view = (basis, self._budgets.view(refused, going))
        return self._view[1]
