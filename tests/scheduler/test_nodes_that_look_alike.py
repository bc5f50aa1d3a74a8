"""Nodes that look alike are asked once whether they suit a pod; the answer is that of each of them."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.plugins.predicates.by_node import ByNode
from bosket.testing.build import node, pod, pod_group, queue, tainted
from bosket.testing.cluster import snapshot_of

pytestmark = pytest.mark.slow

LABELS, VALUES = ("zone", "disk"), ("a", "b")
labels = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES))
requirements = st.builds(
    lambda key, operator, values: NodeSelectorRequirement(
        key=key, operator=operator, values=tuple(sorted(values)) if operator in ("In", "NotIn") else ()
    ),
    st.sampled_from(LABELS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sets(st.sampled_from(VALUES), min_size=1),
)
named = st.sampled_from(["n0", "n1"]).map(
    lambda name: NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
)
terms = st.builds(
    lambda expressions, fields: NodeSelectorTerm(matchExpressions=tuple(expressions), matchFields=tuple(fields)),
    st.lists(requirements, max_size=2),
    st.one_of(st.just([]), st.just([]), st.lists(named, max_size=1)),
)


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    nodes = []
    for number in range(draw(st.integers(1, 8))):
        made = node(f"n{number}", labels=draw(labels))
        for taint in draw(st.sets(st.sampled_from(["x", "y"]))):
            made = tainted(made, taint, draw(st.sampled_from(["", "1"])))
        nodes.append(made)
    builder = pod("p").of_group("g")
    for key, value in draw(labels).items():
        builder = builder.only_on(key, value)
    for taint in draw(st.sets(st.sampled_from(["x", "y"]))):
        builder = builder.tolerates(taint)
    if draw(st.booleans()):
        required = NodeSelector(nodeSelectorTerms=tuple(draw(st.lists(terms, max_size=2))))
        nodes_wanted = NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required)
        builder = builder.with_spec(affinity=Affinity(nodeAffinity=nodes_wanted))
    return [*nodes, queue("q"), pod_group("g", queue="q"), builder.build()]


def texts(objects: Sequence[KubeObject]) -> list[str]:
    """By node, what speaks against it."""
    session = open_session(snapshot_of(objects), Configuration())
    (job,) = session.jobs.candidates()
    (task,) = job.next_tasks()
    codes = ByNode(session.snapshot, session.reason_book).codes(task.pod_class, slice(None)).tolist()
    return list(map(session.reason_book.text, codes))


@given(clusters())
@settings(max_examples=200, deadline=None)
def test_the_answer_for_nodes_that_look_alike_is_that_of_each(objects: Sequence[KubeObject]) -> None:
    with patch.object(ByNode, "_labels_of", lambda *_: None):
        one_by_one = texts(objects)
    assert texts(objects) == one_by_one
