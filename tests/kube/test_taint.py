"""Which taints a toleration covers."""

from __future__ import annotations

import pytest

from bosket.api.core import Taint, Toleration
from bosket.kube.taint import tolerates

TAINT = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(key="gpu", operator="Equal", value="a100"), True),
        (Toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="a100", effect="PreferNoSchedule"), False),
        (Toleration(key="gpu", operator="Equal", value="h100"), False),
        (Toleration(key="cpu", operator="Equal", value="a100"), False),
        (Toleration(key="gpu", value="a100"), True),  # no operator means Equal
        (Toleration(key="gpu"), False),
        (Toleration(value="a100"), False),  # no key goes with Exists only
        (Toleration(), False),
        (Toleration(key="gpu", operator="In", value="a100"), False),  # unknown
    ],
)
def test_key_operator_value_and_effect_say_what_is_tolerated(toleration: Toleration, covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


def test_a_taint_without_value_equals_a_toleration_without_value() -> None:
    assert tolerates(Toleration(key="gpu"), Taint(key="gpu", effect="NoSchedule"))


def test_a_toleration_without_key_covers_nothing_by_equality() -> None:
    assert not tolerates(Toleration(operator="Equal"), Taint(key="gpu", effect="NoSchedule"))


@pytest.mark.parametrize(
    ("operator", "bound", "value", "covered"),
    [
        ("Gt", "750", "950", True),
        ("Gt", "950", "950", False),
        ("Gt", "950", "-950", False),
        ("Lt", "10", "9", True),  # as numbers: as texts, "9" comes after "10"
        ("Lt", "10", "10", False),
        ("Lt", "0", "-1", True),
        ("Gt", "0", "9223372036854775807", True),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "0", "9" * 5000, False),
        ("Gt", "0", "007", False),
        ("Gt", "0", "+7", False),
        ("Gt", "0", "7\n", False),
        ("Gt", "0", "٧", False),
        ("Lt", "many", "7", False),
        ("Lt", "7", "", False),
    ],
)
def test_lt_and_gt_compare_the_taints_value_with_the_tolerations_as_integers(
    operator: str, bound: str, value: str, covered: bool
) -> None:
    toleration = Toleration(key="failure-rate", operator=operator, value=bound)
    assert tolerates(toleration, Taint(key="failure-rate", value=value, effect="NoExecute")) is covered
