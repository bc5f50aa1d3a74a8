"""Topology constraints: what they may say in new PodCliqueSets, and how they may change."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.grove.operator_configuration import TopologyAwareSchedulingConfiguration
from tests.grove_admission.sets import CONFIGURATION, Json, changed, clique, group, judged, pcs, words

OFF = replace(CONFIGURATION, topologyAwareScheduling=TopologyAwareSchedulingConfiguration(enabled=False))
T = "spec.template.topologyConstraint"
A = "spec.template.cliques[0].topologyConstraint"
G = "spec.template.podCliqueScalingGroups[0].topologyConstraint"
ONE_NAME = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"


def pack(required: str = "", preferred: str = "", name: str = "t") -> Json:
    words_of = {"required": required, "preferred": preferred}
    given: Json = {"pack": {key: value for key, value in words_of.items() if value}}
    return {"topologyName": name, **given} if name else given


def with_constraints(own: Json | None = None, of_clique: Json | None = None, of_group: Json | None = None) -> Json:
    """A set with one clique in one group, and constraints where they are given."""
    template = {"topologyConstraint": own} if own else {}
    of_a = {"topologyConstraint": of_clique} if of_clique else {}
    of_g = {"topologyConstraint": of_group} if of_group else {}
    return pcs(clique("a", template=of_a), groups=(group("g", "a", **of_g),), **template)


@pytest.mark.parametrize(
    "document",
    [
        with_constraints(),
        with_constraints(pack("zone"), pack("host"), pack("rack")),
        with_constraints(pack("zone"), pack("host", name=""), pack("rack", name="")),
        with_constraints(None, pack("host", name=""), pack("rack")),
        with_constraints(pack(preferred="rack"), pack("zone")),
        with_constraints(pack("rack"), None, pack("rack")),
    ],
)
def test_constraints_that_make_sense_are_admitted(document: Json) -> None:
    assert words(document) == ""


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (with_constraints(pack("rack", name="")), f"{T}.topologyName: Required value: topologyName is required when"),
        (
            with_constraints(pack("rack", name="u")),
            f'{T}.topologyName: Invalid value: "u": ClusterTopologyBinding "u" not',
        ),
        (
            with_constraints(pack("moon")),
            f"{T}.pack.required: Invalid value: \"moon\": topology domain 'moon' does not ",
        ),
        (with_constraints(pack("zone", "moon")), f'{T}.pack.preferred: Invalid value: "moon"'),
        (with_constraints(pack("rack"), pack("host", name="u")), f'{A}.topologyName: Invalid value: "u": {ONE_NAME}'),
        (
            with_constraints(pack("host"), None, pack("rack")),
            f"{T}: Invalid value: \"host\": PodCliqueSet topology constraint domain 'host' is narrower than "
            "PodCliqueScalingGroup 'g' topology constraint domain 'rack'",
        ),
        (
            with_constraints(None, pack("rack"), pack("host")),
            f"{G}: Invalid value: \"host\": PodCliqueScalingGroup 'g' topology constraint domain 'host' is narrower "
            "than PodClique 'a' topology constraint domain 'rack'",
        ),
        (
            with_constraints(pack(preferred="host"), pack(preferred="rack")),
            f'{T}.pack.preferred: Invalid value: "host": PodCliqueSet topology constraint domain',
        ),
    ],
)
def test_constraints_that_make_no_sense_are_refused(document: Json, said: str) -> None:
    assert words(document).startswith(said)


def test_two_names_without_a_common_parent_are_told_of_both() -> None:
    document = pcs(
        clique("a", template={"topologyConstraint": pack("rack")}),
        clique("b", template={"topologyConstraint": pack("rack", name="u")}),
    )
    other = A.replace("[0]", "[1]")
    assert words(document) == (
        f'[{A}.topologyName: Invalid value: "t": {ONE_NAME}, {other}.topologyName: Invalid value: "u": {ONE_NAME}]'
    )


def test_a_preferred_level_that_is_wider_than_the_required_one_is_warned_about() -> None:
    verdict = judged(with_constraints(pack("rack", "zone")))
    assert verdict.refusals == ()
    assert f"{T}.pack.preferred is coarser than {T}.pack.required and is redundant" in verdict.warnings


def test_nothing_may_be_constrained_where_topology_is_off() -> None:
    document = with_constraints(pack("rack", "host"), pack("host"))
    assert words(document, configuration=OFF) == (
        f'[{T}: Invalid value: ["rack","host"]: topology constraints are not allowed when Topology Aware Scheduling is '
        f'disabled, {A}: Invalid value: ["host"]: topology constraints are not allowed when Topology Aware Scheduling '
        "is disabled]"
    )


OLD = with_constraints(pack("zone", "rack"), pack("rack"), pack("rack"))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "topologyConstraint.topologyName",
            "u",
            f'{T}.topologyName: Forbidden: topologyName cannot be changed from "t"',
        ),
        (
            "topologyConstraint.pack.required",
            "rack",
            f'{T}: Forbidden: PodCliqueSet topology constraint cannot be changed from required="zone" preferred="rack" '
            'to required="rack" preferred="rack"',
        ),
        ("cliques.0.topologyConstraint", None, f"{A}: Forbidden: PodClique 'a' topology constraint cannot be removed"),
        (
            "cliques.0.topologyConstraint.topologyName",
            "u",
            f"{A}: Forbidden: PodClique 'a' topology constraint topology",
        ),
        (
            "podCliqueScalingGroups.0.topologyConstraint.pack",
            {"preferred": "host"},
            f"{G}: Forbidden: PodCliqueScalingGroup 'g' topology constraint cannot be changed",
        ),
    ],
)
def test_constraints_stay(path: str, value: Any, said: str) -> None:
    assert words(changed(OLD, f"spec.template.{path}", value), OLD).startswith(said)


def test_a_constraint_is_not_added() -> None:
    old = with_constraints()
    assert words(changed(old, "spec.template.cliques.0.topologyConstraint", pack("rack")), old) == (
        f"{A}: Forbidden: PodClique 'a' topology constraint cannot be added after creation"
    )


def legacy(name: str = "") -> Json:
    """From before `pack` existed."""
    return {"packDomain": "rack", **({"topologyName": name} if name else {})}


def test_the_deprecated_word_may_be_replaced_by_the_new_one() -> None:
    old = with_constraints(legacy("t"))
    assert words(with_constraints(pack("rack")), old) == ""
    assert words(with_constraints(pack("host")), old).startswith(
        f"{T}: Forbidden: PodCliqueSet deprecated packDomain migration can only move packDomain to pack.required"
    )


def test_the_deprecated_word_is_warned_about_while_it_stays() -> None:
    old = with_constraints(legacy("t"))
    verdict = judged(changed(old, "spec.replicas", 2), old)
    assert verdict.refusals == ()
    assert verdict.warnings[-1] == f"{T}.packDomain is deprecated; use {T}.pack.required instead"


def test_a_set_from_before_topologies_had_names_may_be_given_one_that_exists() -> None:
    old = with_constraints(legacy())
    assert words(with_constraints(legacy("t")), old) == ""
    assert 'ClusterTopologyBinding "u" not found' in words(with_constraints(legacy("u")), old)
    assert "cannot be removed after creation" in words(with_constraints(), old)
    assert "topologyName is required" in words(changed(old, "spec.replicas", 2), old)
