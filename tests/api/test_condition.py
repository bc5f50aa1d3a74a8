"""Conditions are found by type, and keep their date while their status stays."""

from bosket.api.condition import find_condition, has_condition, turned_at
from bosket.api.core import PodCondition
from bosket.api.time import format_time

NOW = 1.75e9
READY = PodCondition(type="Ready", status="True", lastTransitionTime="2025-01-01T00:00:00Z")
OTHER = PodCondition(type="Initialized", status="False")


def test_a_condition_is_found_by_its_type() -> None:
    assert find_condition((OTHER, READY), "Ready") is READY
    assert find_condition((OTHER,), "Ready") is None


def test_a_condition_holds_when_it_is_there_with_the_status() -> None:
    assert has_condition((OTHER, READY), "Ready")
    assert not has_condition((OTHER, READY), "Initialized")
    assert has_condition((OTHER,), "Initialized", "False")
    assert not has_condition((), "Ready", "False")


def test_the_transition_time_moves_only_with_the_status() -> None:
    assert turned_at(READY, "True", NOW) == READY.lastTransitionTime
    assert turned_at(READY, "False", NOW) == format_time(NOW)
    assert turned_at(None, "True", NOW) == format_time(NOW)


def test_a_condition_without_a_date_gets_one() -> None:
    assert turned_at(OTHER, "False", NOW) == format_time(NOW)
