"""Rules about who may use a queue or a priority class."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bosket.api.authentication import UserInfo
from bosket.api.kai import Queue
from bosket.kube.access import (
    ALLOWED_NAMESPACES_ANNOTATION,
    ALLOWED_SUBJECTS_ANNOTATION,
    NAMESPACE_SELECTOR_ANNOTATION,
    against_namespace,
    against_subject,
    queue_rules,
    read_rule,
)
from bosket.testing.build import queue

NAMESPACES, SELECTOR, SUBJECTS = (
    ALLOWED_NAMESPACES_ANNOTATION,
    NAMESPACE_SELECTOR_ANNOTATION,
    ALLOWED_SUBJECTS_ANNOTATION,
)
JANE = UserInfo(username="jane", groups=("ml", "system:authenticated"))
RUNNER = UserInfo(username="system:serviceaccount:ci:runner", groups=("system:serviceaccounts",))


def annotated(name: str, parent: str = "", **annotations: str) -> Queue:
    made = queue(name, parent=parent)
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("annotations", "namespace", "labels", "admitted"),
    [
        ({}, "a", {}, True),
        ({NAMESPACES: "a, b"}, "a", {}, True),
        ({NAMESPACES: "a\nb"}, "b", {}, True),
        ({NAMESPACES: "a"}, "aa", {}, False),
        ({NAMESPACES: ""}, "a", {}, False),
        ({NAMESPACES: "*"}, "a", {}, True),
        ({SELECTOR: "team in (x, y), !banned"}, "a", {"team": "y"}, True),
        ({SELECTOR: "team in (x, y), !banned"}, "a", {"team": "y", "banned": ""}, False),
        ({NAMESPACES: "b", SELECTOR: "team=x"}, "a", {"team": "x"}, True),
        ({NAMESPACES: "b", SELECTOR: "team=x"}, "b", {}, True),
        ({NAMESPACES: "b", SELECTOR: "team=x"}, "c", {}, False),
        ({SUBJECTS: "user:jane"}, "a", {}, True),
    ],
)
def test_namespaces_are_listed_or_selected(annotations: Any, namespace: Any, labels: Any, admitted: Any) -> None:
    why = read_rule("queue q", annotations).against_namespace(namespace, labels)
    assert (why is None) == admitted, why


@pytest.mark.parametrize(
    ("subjects", "user", "admitted"),
    [
        ("user:jane", JANE, True),
        ("user:joe group:ml", JANE, True),
        ("user:ml", JANE, False),
        ("serviceaccount:ci/runner", RUNNER, True),
        ("serviceaccount:ci/*", RUNNER, True),
        ("serviceaccount:c/*", RUNNER, False),
        ("serviceaccount:ci/run", RUNNER, False),
        ("", JANE, False),
    ],
)
def test_subjects_are_users_groups_and_accounts(subjects: str, user: UserInfo, admitted: bool) -> None:
    why = read_rule("queue q", {SUBJECTS: subjects}).against_subject(user)
    assert (why is None) == admitted, why


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({NAMESPACES: "Team_A"}, 'bosket.dev/allowed-namespaces has "Team_A"; expected names of namespaces'),
        ({NAMESPACES: "team-*"}, 'has "team-*"'),
        ({SELECTOR: "team in (a"}, "annotation bosket.dev/namespace-selector: "),
        ({SELECTOR: " "}, "annotation bosket.dev/namespace-selector is empty"),
        ({SUBJECTS: "jane"}, 'bosket.dev/allowed-subjects has "jane"; expected user:NAME, group:NAME'),
        ({NAMESPACES: "a", SUBJECTS: "role:x"}, 'has "role:x"'),
    ],
)
def test_a_rule_that_cant_be_read_lets_nobody_in_and_says_why(annotations: dict[str, str], told: str) -> None:
    rule = read_rule("queue q", annotations)
    for why in (rule.against_namespace("a", {}), rule.against_subject(JANE)):
        assert why is not None
        assert why.startswith("nobody may use queue q while its rule can't be read: ")
        assert told in why


def test_a_queue_is_only_as_open_as_those_above_it() -> None:
    queues = {
        each.metadata.name: each
        for each in (
            annotated("org", **{NAMESPACES: "a, b"}),
            annotated("team", "org", **{NAMESPACES: "b, c"}),
            annotated("open", "org"),
        )
    }
    assert against_namespace(queue_rules("team", queues), "b", {}) is None
    assert "may not use queue org" in str(against_namespace(queue_rules("team", queues), "c", {}))
    assert "may not use queue team" in str(against_namespace(queue_rules("team", queues), "a", {}))
    assert "may not use queue org" in str(against_namespace(queue_rules("open", queues), "c", {}))
    assert queue_rules("nowhere", queues) == []


def test_queues_in_a_circle_end_the_walk() -> None:
    queues = {"a": annotated("a", "b", **{NAMESPACES: "x"}), "b": annotated("b", "a", **{NAMESPACES: "y"})}
    assert len(queue_rules("a", queues)) == 2


@given(
    st.dictionaries(st.sampled_from([NAMESPACES, SELECTOR, SUBJECTS]), st.text(max_size=30)),
    st.text(max_size=10),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
def test_any_text_is_judged(annotations: dict[str, str], name: str, labels: dict[str, str]) -> None:
    rule = read_rule("queue q", annotations)
    user = UserInfo(username=name, groups=tuple(labels))
    assert rule.against_namespace(name, labels) is None or rule.against_namespace(name, labels)
    against_subject([rule], user)
    if not annotations:
        assert rule.against_namespace(name, labels) is None
