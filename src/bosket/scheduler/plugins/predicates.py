"""Which nodes may take a pod, by what nodes are: cordons and conditions, taints, node selector, node affinity."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from bosket.api.core import Node, NodeSelectorTerm
from bosket.kube.selector import InvalidSelector, requirement
from bosket.kube.taint import tolerates
from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import refuses_pods
from bosket.scheduler.model.task import PodClass

WRONG_LABELS = "node(s) didn't match Pod's node affinity/selector"


Objection = Callable[[Node], str | None]  #: what speaks against one node


class Predicates:
    """Registers the checks, in the order in which their objections are reported."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.node_filters.add(_ByNode(session, "conditions", lambda _: refuses_pods))
        session.node_filters.add(_ByNode(session, "taints", _taints))
        session.node_filters.add(_ByNode(session, "affinity", _affinity))


class _ByNode(NodeFilter):
    """A check of one class against one node at a time; its verdicts are remembered while nodes stay what they are."""

    fixed = True

    def __init__(self, session: Session, name: str, check: Callable[[PodClass], Objection]) -> None:
        self._session, self._name, self._check = session, name, check

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        snapshot = self._session.snapshot
        texts, numbers = snapshot.memory.recall(
            snapshot.nodes.static_version, self._name, pod_class.fixed_index, lambda: self._ask(pod_class)
        )
        codes: ReasonCodes = self._session.reason_book.numbers(texts)[numbers[rows]]
        return codes

    def _ask(self, pod_class: PodClass) -> tuple[tuple[str, ...], np.ndarray]:
        """All objections there are, the first being none, and which of them each node has."""
        places: dict[str, int] = {"": 0}
        nodes = self._session.snapshot.nodes.nodes
        found = (places.setdefault(text or "", len(places)) for text in map(self._check(pod_class), nodes))
        numbers = np.fromiter(found, np.intp, len(nodes))
        return tuple(places), numbers


def _taints(pod_class: PodClass) -> Objection:
    def objection(node: Node) -> str | None:
        for taint in node.spec.taints:
            if taint.effect == "PreferNoSchedule" or any(tolerates(each, taint) for each in pod_class.tolerations):
                continue
            value = f": {taint.value}" if taint.value else ""
            return f"node(s) had untolerated taint {{{taint.key}{value}}}"
        return None

    return objection


def _affinity(pod_class: PodClass) -> Objection:
    selector = pod_class.node_selector
    affinity = pod_class.affinity.nodeAffinity if pod_class.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    terms = [term for term in map(_term, required.nodeSelectorTerms) if term] if required else None

    def objection(node: Node) -> str | None:
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in selector.items()):
            return WRONG_LABELS
        if terms is not None and not any(term(node) for term in terms):
            return WRONG_LABELS
        return None

    return objection


def _term(term: NodeSelectorTerm) -> Callable[[Node], bool] | None:
    """A term as a test of nodes; None for one that matches nothing: an empty one, or one that can't be understood."""
    try:
        labels = [requirement(each.key, each.operator, each.values) for each in term.matchExpressions]
        fields = [requirement(each.key, each.operator, each.values) for each in term.matchFields]
    except InvalidSelector:
        return None
    if not labels and not fields:
        return None
    return lambda node: (
        all(each.matches(node.metadata.labels) for each in labels)
        and all(each.matches({"metadata.name": node.metadata.name}) for each in fields)
    )
