"""policy/v1: disruption budgets and evictions."""

from __future__ import annotations

from bosket.api.meta import DeleteOptions
from bosket.api.object import Condition, KubeObject, LabelSelector, Wire


class PodDisruptionBudgetSpec(Wire):
    """Which pods, and how many of them must stay or may be missing."""

    minAvailable: int | str | None = None
    selector: LabelSelector | None = None
    maxUnavailable: int | str | None = None
    unhealthyPodEvictionPolicy: str | None = None


class PodDisruptionBudgetStatus(Wire):
    """How many disruptions are allowed now."""

    observedGeneration: int = 0
    disruptedPods: dict[str, str] = {}
    disruptionsAllowed: int = 0
    currentHealthy: int = 0
    desiredHealthy: int = 0
    expectedPods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(KubeObject):
    """Bounds voluntary disruption of a set of pods; the eviction API obeys it."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Eviction(KubeObject):
    """Asks for a pod to go; posted to `pods/eviction`."""

    deleteOptions: DeleteOptions | None = None
