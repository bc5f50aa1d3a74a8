"""Node selectors as tests of nodes: required node affinity, and where volumes can be reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bosket.api.core import Node, NodeSelector, NodeSelectorTerm
from bosket.kube.selector import InvalidSelector, requirement
from bosket.scheduler.model.task import PodClass

NodeTest = Callable[[Node], bool]


def node_test(selector: NodeSelector) -> NodeTest:
    """Whether one of the selector's terms holds for a node."""
    terms = [term for term in map(_term, selector.nodeSelectorTerms) if term]
    return lambda node: any(term(node) for term in terms)


def own_nodes(pod_class: PodClass) -> NodeTest:
    """Whether a node is what the pods' node selector and required node affinity ask for."""
    selector: Mapping[str, str] = pod_class.node_selector
    required = node_test(pod_class.required_nodes) if pod_class.required_nodes is not None else None

    def test(node: Node) -> bool:
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
        return required is None or required(node)

    return test


def _term(term: NodeSelectorTerm) -> NodeTest | None:
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
