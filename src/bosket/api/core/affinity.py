"""Where a pod may or would rather run: selectors of nodes, affinity to pods, taints and their tolerations."""

from __future__ import annotations

from bosket.api.object import LabelSelector, Wire


class NodeSelectorRequirement(Wire):
    """One condition on a node's labels or fields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire):
    """Conditions that must all hold; a term without any matches no node."""

    matchExpressions: tuple[NodeSelectorRequirement, ...] = ()
    matchFields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire):
    """Terms of which one must hold."""

    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire):
    """A term that adds its weight (1 to 100) to the score of the nodes it matches."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire):
    """Which nodes a pod must or would rather run on."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire):
    """Pods, and the topology domain that being near them is measured by."""

    topologyKey: str
    labelSelector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] = ()
    mismatchLabelKeys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire):
    """A pod affinity term that adds its weight (1 to 100) to a node's score."""

    weight: int
    podAffinityTerm: PodAffinityTerm


class PodAffinity(Wire):
    """Pods that a pod must or would rather run near."""

    requiredDuringSchedulingIgnoredDuringExecution: tuple[PodAffinityTerm, ...] = ()
    preferredDuringSchedulingIgnoredDuringExecution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Wire):
    """Pods that a pod must or would rather stay away from."""

    requiredDuringSchedulingIgnoredDuringExecution: tuple[PodAffinityTerm, ...] = ()
    preferredDuringSchedulingIgnoredDuringExecution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire):
    """All scheduling constraints of a pod that speak of nodes and other pods."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAntiAffinity | None = None


class Taint(Wire):
    """Keeps away from a node every pod that doesn't tolerate it."""

    key: str
    effect: str
    value: str = ""
    timeAdded: str | None = None


class Toleration(Wire):
    """Lets a pod onto nodes with matching taints; an empty key with `Exists` matches every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class TopologySpreadConstraint(Wire):
    """How unevenly matching pods may be spread over the domains of a node label."""

    maxSkew: int
    topologyKey: str
    whenUnsatisfiable: str
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: tuple[str, ...] = ()


class TopologySelectorLabelRequirement(Wire):
    """A node label and the values that it may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire):
    """Node labels that must all match, where a volume may be provisioned."""

    matchLabelExpressions: tuple[TopologySelectorLabelRequirement, ...] = ()
