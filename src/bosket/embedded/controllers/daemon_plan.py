"""The next step of a DaemonSet, computed without I/O: nodes that get a pod, pods to delete.

Every node that the template's node selector and affinity match, and whose taints it tolerates, has one pod; a taint
that came later keeps new pods off and leaves those that run to the taint's own effect. An update deletes outdated pods
as `maxUnavailable` allows, or, with `maxSurge`, makes their successors first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from bosket.api.apps import DaemonSet
from bosket.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Toleration,
)
from bosket.api.pod_phase import has_ended
from bosket.embedded.controllers.pods import pod_of, seconds_until_available
from bosket.embedded.controllers.revision_history import REVISION_LABEL, revision_of
from bosket.kube.node_selector import node_test
from bosket.kube.taint import tolerates

_NODE_NAME: Final = "metadata.name"
#: What every daemon's pod tolerates, key and effect: nodes in trouble need their daemons the most.
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(slots=True)
class DaemonPlan:
    """What to do now, and what is the case."""

    create: list[str] = field(default_factory=list)  #: names of nodes
    delete: list[Pod] = field(default_factory=list)
    #: nodes that should run the daemon; those that do; and those that do though they shouldn't
    desired: int = 0
    scheduled: int = 0
    misscheduled: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0


@dataclass(frozen=True, slots=True)
class Daemons:
    """A DaemonSet with its pods, and what a plan must know of them."""

    owner: DaemonSet
    pods: list[Pod]
    nodes: Iterable[Node]
    #: The revision that pods should have in the end.
    revision: str
    is_going: Callable[[Pod], bool]
    is_ready: Callable[[Pod], bool]
    now: float

    def is_available(self, pod: Pod) -> bool:
        """Ready for long enough, and not on its way out."""
        ready_for = seconds_until_available(pod, self.owner.spec.minReadySeconds, self.now)
        return ready_for == 0 and not self.is_going(pod) and not has_ended(pod)


def plan(daemons: Daemons) -> DaemonPlan:
    """The next steps."""
    result = DaemonPlan()
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in daemons.pods:
        on_node[node_of(pod)].append(pod)
    fits = _Fit(daemons.owner.spec.template)
    places: list[tuple[str, list[Pod]]] = []
    for node in daemons.nodes:
        pods = on_node.pop(node.metadata.name, [])
        should_run, should_stay = fits.judge(node)
        alive = [pod for pod in pods if not daemons.is_going(pod)]
        if should_run:
            result.desired += 1
            places.append((node.metadata.name, pods))
        elif alive:
            result.misscheduled += 1
            if not should_stay:
                result.delete += alive
    result.delete += [pod for pods in on_node.values() for pod in pods if not daemons.is_going(pod)]  # nodes that went
    _count(daemons, places, result)
    _fill(daemons, places, result)
    return result


def node_of(pod: Pod) -> str:
    """The node that a daemon's pod runs on, or was made for."""
    if pod.spec.nodeName:
        return pod.spec.nodeName
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    for term in required.nodeSelectorTerms if required is not None else ():
        for each in term.matchFields:
            if each.key == _NODE_NAME and each.operator == "In" and len(each.values) == 1:
                return each.values[0]
    return ""


def new_pod(owner: DaemonSet, template: PodTemplateSpec, revision: str, node: str) -> Pod:
    """The pod for a node: an ordinary one that its scheduler can place nowhere else."""
    pod = pod_of(
        owner, template, generate_name=f"{owner.metadata.name}-", labels={REVISION_LABEL: revision.rsplit("-", 1)[-1]}
    )
    return replace(pod, spec=replace(with_tolerations(pod.spec), affinity=_only_on(pod.spec.affinity, node)))


def with_tolerations(spec: PodSpec) -> PodSpec:
    """The spec with what every daemon's pod tolerates."""
    wanted = (*_TOLERATED, _NETWORK) if spec.hostNetwork else _TOLERATED
    missing = tuple(
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in wanted
        if not any(each.key == key and each.effect == effect for each in spec.tolerations)
    )
    return replace(spec, tolerations=(*spec.tolerations, *missing))


def _only_on(affinity: Affinity | None, node: str) -> Affinity:
    """The affinity with a single required term, for one node; preferences among nodes mean nothing then."""
    name = NodeSelectorRequirement(key=_NODE_NAME, operator="In", values=(node,))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchFields=(name,)),))
    before = affinity or Affinity()
    nodes = before.nodeAffinity or NodeAffinity()
    return replace(before, nodeAffinity=replace(nodes, requiredDuringSchedulingIgnoredDuringExecution=required))


class _Fit:
    """Whether nodes suit a template."""

    def __init__(self, template: PodTemplateSpec) -> None:
        spec = self._spec = with_tolerations(template.spec)
        affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
        self._affinity = node_test(required) if required is not None else None

    def judge(self, node: Node) -> tuple[bool, bool]:
        """Whether the node should run the daemon, and whether one that runs there already may stay."""
        spec = self._spec
        if spec.nodeName and spec.nodeName != node.metadata.name:
            return False, False
        if not spec.nodeSelector.items() <= node.metadata.labels.items():
            return False, False
        if self._affinity is not None and not self._affinity(node):
            return False, False
        unbearable = [
            taint for taint in node.spec.taints if not any(tolerates(each, taint) for each in spec.tolerations)
        ]
        may_run = not any(taint.effect in ("NoSchedule", "NoExecute") for taint in unbearable)
        return may_run, not any(taint.effect == "NoExecute" for taint in unbearable)


def _count(daemons: Daemons, places: list[tuple[str, list[Pod]]], result: DaemonPlan) -> None:
    for _, pods in places:
        alive = [pod for pod in pods if not daemons.is_going(pod) and not has_ended(pod)]
        if not alive:
            continue
        result.scheduled += 1
        oldest = min(alive, key=_age)
        if daemons.is_ready(oldest):
            result.ready += 1
            result.available += daemons.is_available(oldest)
        result.updated += _is_updated(oldest, daemons)


def _fill(daemons: Daemons, places: list[tuple[str, list[Pod]]], result: DaemonPlan) -> None:
    """One living pod on each node, of the revision that is wanted as soon as the strategy allows it."""
    strategy = daemons.owner.spec.updateStrategy
    rolling = strategy.rollingUpdate
    surge = _share(rolling.maxSurge if rolling is not None else None, result.desired, 0)
    budget = _share(rolling.maxUnavailable if rolling is not None else None, result.desired, 0 if surge else 1)
    outdated: list[tuple[str, list[Pod]]] = []
    surging = 0
    for node, pods in places:
        failed = [pod for pod in pods if has_ended(pod) and not daemons.is_going(pod)]
        result.delete += failed  # the successor comes when they are gone, so that a daemon that fails isn't a storm
        alive = sorted((pod for pod in pods if not daemons.is_going(pod) and not has_ended(pod)), key=_age)
        going = [pod for pod in pods if daemons.is_going(pod)]
        if not alive:
            if not failed and not going:
                result.create.append(node)
            budget -= 1
            continue
        new = [pod for pod in alive if _is_updated(pod, daemons)]
        old = [pod for pod in alive if not _is_updated(pod, daemons)]
        if new and old:
            surging += 1
            if any(daemons.is_available(pod) for pod in new):
                result.delete += old
            continue
        result.delete += alive[1:]
        if not daemons.is_available(alive[0]):
            budget -= 1
        if old:
            outdated.append((node, old))
    if strategy.type == "OnDelete":
        return
    # Those that don't serve anyway go first, and cost nothing.
    for node, old in sorted(outdated, key=lambda each: (daemons.is_available(each[1][0]), each[0])):
        if not daemons.is_available(old[0]):
            result.delete.append(old[0])
        elif surge:
            if surging < surge:
                surging += 1
                result.create.append(node)
        elif budget > 0:
            budget -= 1
            result.delete.append(old[0])


def _is_updated(pod: Pod, daemons: Daemons) -> bool:
    return revision_of(pod) == daemons.revision.rsplit("-", 1)[-1]


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creationTimestamp or "", pod.metadata.name)


def _share(value: int | str | None, of: int, default: int) -> int:
    """A number, or a percentage of the nodes, rounded up."""
    if value is None:
        return default
    if isinstance(value, int):
        return value
    return math.ceil(float(value.removesuffix("%")) * of / 100)
