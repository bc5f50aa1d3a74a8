"""Which changes of a status are written at once, and which are debounced; transition times of conditions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueScalingGroupStatus,
    PodCliqueSetStatus,
    PodCliqueStatus,
    PodGangStatus,
    PodGangStatusSummary,
)
from bosket.api.object import Condition, ObjectMeta
from bosket.api.time import format_time
from bosket.grove.backends import gang_status
from bosket.grove.status import clique as clique_status
from bosket.grove.status import group as group_status
from bosket.grove.status import set as set_status
from bosket.grove.status.gathering import CLIQUE_SECONDS, NUMBERS_SECONDS, POD_SECONDS, WORDS_SECONDS, gather_seconds
from tests.grove.sets import clique, clique_set

CREATED = 1_000_000.0
CLIQUE = PodClique(
    metadata=ObjectMeta(name="s-0-a", namespace="ml", generation=1, creationTimestamp=format_time(CREATED)),
    spec=clique("a", 10, 4).spec,
)
GROUP = PodCliqueScalingGroup(
    metadata=ObjectMeta(name="s-0-g", namespace="ml"),
    spec=PodCliqueScalingGroupSpec(replicas=3, minAvailable=2, cliqueNames=("b",)),
)


def says(type_: str, status: str, message: str = "") -> tuple[Condition, ...]:
    since = format_time(CREATED)
    return (Condition(type=type_, status=status, reason="R", message=message, lastTransitionTime=since),)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"readyReplicas": 3}, NUMBERS_SECONDS),
        ({"readyReplicas": 4}, 0.0),
        ({"readyReplicas": 10}, 0.0),
        ({"scheduledReplicas": 7, "scheduleGatedReplicas": 2, "replicas": 9, "updatedReplicas": 9}, NUMBERS_SECONDS),
        ({"conditions": says("PodCliqueScheduled", "False", "found: 3")}, NUMBERS_SECONDS),
        ({"conditions": says("PodCliqueScheduled", "True")}, 0.0),
        ({"observedGeneration": 2}, 0.0),
        ({"currentPodTemplateHash": "new"}, 0.0),
    ],
)
def test_numbers_of_a_clique_wait_until_one_matters(changes: dict[str, Any], seconds: float) -> None:
    before = PodCliqueStatus(observedGeneration=1, replicas=10, conditions=says("PodCliqueScheduled", "False"))
    assert clique_status.patience_seconds(CLIQUE, before, replace(before, **changes)) == seconds


def test_what_a_new_clique_tells_first_waits_unless_it_has_its_nodes_already() -> None:
    waiting = PodCliqueStatus(observedGeneration=1, replicas=10, conditions=says("PodCliqueScheduled", "False"))
    placed = replace(waiting, conditions=says("PodCliqueScheduled", "True"))
    assert clique_status.patience_seconds(CLIQUE, PodCliqueStatus(), waiting) == NUMBERS_SECONDS
    assert clique_status.patience_seconds(CLIQUE, PodCliqueStatus(), placed) == 0.0


def test_a_clique_that_is_looked_at_late_has_waited_since_its_creation() -> None:
    """Else it would pass for one that lost its nodes, and be terminated."""
    owner = clique_set("s", clique("a", 10, 4))
    observed = replace(CLIQUE, status=PodCliqueStatus(observedGeneration=1))
    status = clique_status.clique_status(owner, observed, (), CREATED + 60)
    assert {each.lastTransitionTime for each in status.conditions} == {format_time(CREATED)}


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"scheduledReplicas": 1}, NUMBERS_SECONDS),
        ({"availableReplicas": 2}, 0.0),
        ({"conditions": says("MinAvailableBreached", "False", "(1)")}, WORDS_SECONDS),
        ({"conditions": says("MinAvailableBreached", "True")}, 0.0),
        ({"observedGeneration": 2}, 0.0),
    ],
)
def test_numbers_of_a_group_wait_and_words_longer(changes: dict[str, Any], seconds: float) -> None:
    before = PodCliqueScalingGroupStatus(observedGeneration=1, conditions=says("MinAvailableBreached", "False", "(2)"))
    assert group_status.patience_seconds(GROUP, before, replace(before, **changes)) == seconds


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"availableReplicas": 2}, NUMBERS_SECONDS),
        ({"availableReplicas": 3}, 0.0),
        ({"availableReplicas": 0}, 0.0),
        ({"podGangStatuses": (PodGangStatusSummary(name="s-0", phase="Running"),)}, NUMBERS_SECONDS),
        ({"observedGeneration": 2}, 0.0),
    ],
)
def test_how_gangs_of_a_set_fare_waits(changes: dict[str, Any], seconds: float) -> None:
    before = PodCliqueSetStatus(observedGeneration=1, replicas=3, availableReplicas=1)
    assert set_status.patience_seconds(before, replace(before, **changes)) == seconds


@pytest.mark.parametrize(
    ("after", "at_once"),
    [
        (PodGangStatus(phase="Starting", conditions=says("Scheduled", "False", "3 of 4")), False),
        (PodGangStatus(phase="Starting", conditions=says("Scheduled", "True")), True),
        (PodGangStatus(phase="Running", conditions=says("Scheduled", "False")), True),
        (PodGangStatus(phase="Pending", conditions=says("Scheduled", "False") + says("Ready", "False")), False),
    ],
)
def test_what_a_gang_waits_for_is_told_late_and_what_it_got_at_once(after: PodGangStatus, at_once: bool) -> None:
    before = PodGangStatus(phase="Pending", conditions=says("Scheduled", "False"))
    assert (gang_status.patience_seconds(before, after) == 0.0) is at_once


def test_the_larger_the_whole_the_longer_its_parts_are_gathered() -> None:
    assert gather_seconds(8, POD_SECONDS) < 0.11
    assert gather_seconds(500, POD_SECONDS) == pytest.approx(0.2)
    assert gather_seconds(1_000, CLIQUE_SECONDS) == pytest.approx(1.1)
    assert gather_seconds(1_000_000, CLIQUE_SECONDS) == 5.0
