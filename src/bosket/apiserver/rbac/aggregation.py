"""Cluster roles that are made of others: those whose labels a selector of theirs matches, in order of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import label_selector

_MANAGER = "clusterrole-aggregation-controller"


def aggregate(role: Doc, others: Iterable[Doc]) -> list[dict[str, Any]]:
    """The rules of a cluster role with an aggregation rule; `others` are all cluster roles."""
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    matchers = [label_selector(msgspec.convert(selector, LabelSelector)) for selector in selectors]
    rules: list[dict[str, Any]] = []
    for other in sorted(others, key=lambda each: str(each["metadata"]["name"])):
        if other["metadata"]["name"] == role["metadata"]["name"]:
            continue
        labels = other["metadata"].get("labels") or {}
        if any(matcher.matches(labels) for matcher in matchers):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
