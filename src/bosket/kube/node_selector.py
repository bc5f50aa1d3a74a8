"""Node selectors as tests of nodes: required node affinity of pods, and where volumes can be reached."""

from __future__ import annotations

from collections.abc import Callable

from bosket.api.core import Node, NodeSelector, NodeSelectorTerm
from bosket.kube.selector import InvalidSelector, requirement

NodeTest = Callable[[Node], bool]


def node_test(selector: NodeSelector) -> NodeTest:
    """Whether one of the selector's terms holds for a node."""
    terms = [term for term in map(_term, selector.nodeSelectorTerms) if term]
    return lambda node: any(term(node) for term in terms)


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
