"""Unit tables "Breach" and "gate on termination" of Grove's list: who is below its minimum, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupUpdateProgress,
    PodCliqueUpdateProgress,
)
from bosket.api.object import Condition
from bosket.grove.condition import BREACHED, CLIQUE_SCHEDULED, TERMINATING_GANG, WAS_WHOLE, find, is_true
from bosket.grove.status.clique import clique_status
from bosket.grove.status.group import group_status
from bosket.grove.status.termination import clique_breaches, group_breaches
from tests.grove.objects import CREATED, condition, made_clique, made_group, made_pod
from tests.grove.sets import clique, clique_set, group

STARTED = "2025-01-01T00:00:00Z"
OWNER = clique_set("s", clique("a"), delay="10s")
GROUPED = clique_set("s", clique("a"), clique("b"), groups=[group("g", "a", "b")], delay="10s")


# --- PodCliques


def breach_of_clique(found: PodClique, *pods: Pod) -> tuple[str, str]:
    said = find(clique_status(OWNER, found, pods, CREATED).conditions, BREACHED)
    assert said is not None
    return said.status, said.reason


BELOW = ("True", "ScheduledReplicasBelowMinAvailable")
UNREADY = ("True", "InsufficientReadyPods")
FINE = ("False", "SufficientReadyPods")


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        pytest.param([{"scheduled": True}, {}], BELOW, id="some are scheduled, and too few"),
        pytest.param([{}, {}], BELOW, id="all were lost, or none was ever scheduled"),
        pytest.param([], BELOW, id="there are none"),
        pytest.param([{"scheduled": True}] * 2, FINE, id="those that are starting count"),
        pytest.param([{"scheduled": True, "started": True, "ready": True}] * 2, FINE, id="all serve"),
        pytest.param(
            [{"scheduled": True}, {"scheduled": True, "started": True}], UNREADY, id="one has started and isn't ready"
        ),
        pytest.param([{"scheduled": True}, {"scheduled": True, "exit_code": 1}], UNREADY, id="one has failed"),
        pytest.param([{"scheduled": True}, {"scheduled": True, "exit_code": 0}], FINE, id="one has ended well"),
        pytest.param(
            [{"scheduled": True}, {"scheduled": True, "ready": True, "started": True, "exit_code": 1}],
            FINE,
            id="one has failed and serves again",
        ),
    ],
)
def test_a_podclique_is_in_breach_when_too_few_pods_are_of_use(
    pods: list[dict[str, Any]], said: tuple[str, str]
) -> None:
    found = made_clique(replicas=2)
    assert breach_of_clique(found, *(made_pod(f"p{index}", **each) for index, each in enumerate(pods))) == said


def test_a_podclique_that_is_updated_says_nothing_of_a_breach() -> None:
    progress = PodCliqueUpdateProgress(updateStartedAt=STARTED, podCliqueSetGenerationHash="g", podTemplateHash="h")
    found = made_clique()
    found = replace(found, status=replace(found.status, updateProgress=progress))
    assert breach_of_clique(found) == ("Unknown", "UpdateInProgress")


def test_nothing_is_said_before_the_first_look_is_through() -> None:
    found = made_clique()
    found = replace(found, status=replace(found.status, observedGeneration=None))
    assert clique_status(OWNER, found, (), CREATED).conditions == ()


# --- scaling groups

IN_BREACH, SOUND = condition(BREACHED, "True"), condition(BREACHED, "False")


def members(*replicas: str) -> list[PodClique]:
    """Replicas of the group: ok, breached (one of its PodCliques), new (says nothing yet), half, going, none."""
    made = []
    for index, state in enumerate(replicas):
        for name in ("a", "b"):
            if state == "none" or (state == "half" and name == "b"):
                continue
            said = {"ok": (SOUND,), "going": (SOUND,), "half": (SOUND,), "new": ()}.get(
                state, (IN_BREACH if name == "a" else SOUND,)
            )
            going = state == "going" and name == "b"
            made.append(made_clique(f"s-0-g-{index}-{name}", *said, group="s-0-g", index=index, going=going))
    return made


@pytest.mark.parametrize(
    ("minimum", "replicas", "status"),
    [
        (1, ["ok", "ok"], "False"),
        (2, ["breached", "ok", "ok", "ok", "ok"], "False"),
        (1, ["breached", "ok"], "False"),
        (1, ["breached", "breached"], "True"),
        (2, ["breached", "breached", "ok"], "True"),
        (1, ["none", "none"], "True"),
        (1, ["half", "breached"], "True"),
        (1, ["half", "ok"], "False"),
        (1, ["going", "breached"], "True"),
        (1, ["new", "new"], "False"),
    ],
)
def test_a_group_is_in_breach_when_too_few_replicas_are_whole_and_sound(
    minimum: int, replicas: list[str], status: str
) -> None:
    found = made_group(replicas=len(replicas), minimum=minimum)
    said = find(group_status(GROUPED, found, members(*replicas), CREATED).conditions, BREACHED)
    assert said is not None
    assert said.status == status


def test_a_group_that_is_updated_says_nothing_of_a_breach() -> None:
    progress = PodCliqueScalingGroupUpdateProgress(updateStartedAt=STARTED, podCliqueSetGenerationHash="g")
    found = made_group(replicas=2, minimum=1)
    found = replace(found, status=replace(found.status, updateProgress=progress))
    said = find(group_status(GROUPED, found, members("breached", "breached"), CREATED).conditions, BREACHED)
    assert said is not None
    assert (said.status, said.reason) == ("Unknown", "UpdateInProgress")


@pytest.mark.parametrize(
    ("replicas", "stays"),
    [(["breached", "breached"], True), (["new", "new"], True), (["new", "ok"], False), (["ok", "ok"], False)],
)
def test_a_termination_is_over_when_enough_replicas_say_that_they_are_sound(replicas: list[str], stays: bool) -> None:
    """Those that were made a moment ago say nothing yet."""
    found = made_group(IN_BREACH, condition(TERMINATING_GANG, "True"), replicas=2, minimum=1)
    after = group_status(GROUPED, found, members(*replicas), CREATED).conditions
    assert (find(after, TERMINATING_GANG) is not None) == stays


# --- what follows

LATER = 60.0


def group_with_conditions(*conditions: Condition) -> PodCliqueScalingGroup:
    return made_group(*conditions, replicas=1, minimum=1)


@pytest.mark.parametrize(
    ("conditions", "counts"),
    [
        pytest.param([condition(BREACHED, "True", LATER)], True, id="in breach"),
        pytest.param(
            [condition(BREACHED, "True", LATER), condition(TERMINATING_GANG, "True")], False, id="made anew already"
        ),
        pytest.param([condition(BREACHED, "False", LATER), condition(TERMINATING_GANG, "True")], False, id="sound"),
        pytest.param([], False, id="nothing said"),
        pytest.param([condition(BREACHED, "True", 1.0)], False, id="never healthy"),
        pytest.param([condition(BREACHED, "Unknown", LATER)], False, id="updated"),
    ],
)
def test_a_group_is_terminated_once_for_a_breach_and_not_before_it_was_healthy(
    conditions: list[Condition], counts: bool
) -> None:
    assert bool(list(group_breaches(GROUPED, [group_with_conditions(*conditions)], CREATED + LATER))) == counts


def test_a_flag_that_a_sibling_has_left_over_does_not_protect_others() -> None:
    flagged = group_with_conditions(condition(BREACHED, "False", LATER), condition(TERMINATING_GANG, "True"))
    breached = group_with_conditions(condition(BREACHED, "True", LATER))
    (found,) = group_breaches(GROUPED, [flagged, breached], CREATED + LATER + 11)
    assert found.is_over


@pytest.mark.parametrize(
    ("scheduled", "counts"),
    [
        (condition(CLIQUE_SCHEDULED, "True", 1.0), True),
        (condition(CLIQUE_SCHEDULED, "False", LATER), True),
        (condition(CLIQUE_SCHEDULED, "False", 1.0), False),
        (None, False),
    ],
)
def test_a_podclique_that_was_never_scheduled_is_not_terminated(scheduled: Condition | None, counts: bool) -> None:
    said = [condition(BREACHED, "True", LATER), *([scheduled] if scheduled is not None else [])]
    assert bool(list(clique_breaches(OWNER, [made_clique("s-0-a", *said)], CREATED + LATER))) == counts


@pytest.mark.parametrize(
    ("seconds", "is_remembered"), [(0.0, True), (2.0, True), (5.9, True), (7.0, False), (900.0, False)]
)
def test_a_podclique_that_is_whole_within_the_grace_is_remembered_to_have_been(
    seconds: float, is_remembered: bool
) -> None:
    """Later, the time of a condition's change says it."""
    found, pods = made_clique("s-0-a"), [made_pod("p", scheduled=True)]
    found = replace(found, status=clique_status(OWNER, found, pods, CREATED + seconds))
    assert is_true(found.status.conditions, CLIQUE_SCHEDULED)
    assert is_true(found.status.conditions, WAS_WHOLE) == is_remembered
    found = replace(found, status=clique_status(OWNER, found, [], CREATED + seconds + 0.5))
    assert not is_true(found.status.conditions, CLIQUE_SCHEDULED)
    (breach,) = clique_breaches(OWNER, [found], CREATED + seconds + 11)
    assert breach.is_over


def test_a_group_that_is_whole_within_the_grace_is_remembered_to_have_been() -> None:
    def members(breached: str) -> list[PodClique]:
        said = condition(BREACHED, breached), condition(CLIQUE_SCHEDULED, "True" if breached == "False" else "False")
        return [made_clique(f"s-0-g-0-{name}", *said, group="s-0-g") for name in "ab"]

    found = made_group(replicas=1, minimum=1)
    for seconds, breached in ((1, "False"), (2, "True")):
        found = replace(found, status=group_status(GROUPED, found, members(breached), CREATED + seconds))
    (breach,) = group_breaches(GROUPED, [found], CREATED + 13)
    assert breach.is_over
    silent = [replace(each, status=replace(each.status, conditions=())) for each in members("True")]
    never = made_group(replicas=1, minimum=1)
    never = replace(never, status=group_status(GROUPED, never, silent, CREATED + 1))
    assert not is_true(never.status.conditions, WAS_WHOLE), "PodCliques that say nothing aren't known to be whole"


@pytest.mark.parametrize("seconds", [2, 40])
def test_a_group_learns_from_its_podcliques_that_it_was_whole_between_two_looks(seconds: float) -> None:
    def group_after(*members: Condition) -> PodCliqueScalingGroup:
        found = made_group(replicas=1, minimum=1)
        for at, said in ((1, [condition(CLIQUE_SCHEDULED, "False")]), (seconds, members)):
            all_say = [condition(BREACHED, "True"), *said]
            cliques = [made_clique(f"s-0-g-0-{name}", *all_say, group="s-0-g") for name in "ab"]
            found = replace(found, status=group_status(GROUPED, found, cliques, CREATED + at))
        return found

    was_whole = group_after(condition(CLIQUE_SCHEDULED, "False"), condition(WAS_WHOLE, "True"))
    (breach,) = group_breaches(GROUPED, [was_whole], CREATED + seconds + 11)
    assert breach.is_over
    assert not list(
        group_breaches(GROUPED, [group_after(condition(CLIQUE_SCHEDULED, "False"))], CREATED + seconds + 11)
    )


@pytest.mark.parametrize(("after", "is_over"), [(0, False), (9, False), (10, True), (11, True)])
def test_a_breach_is_borne_for_the_sets_delay(after: float, is_over: bool) -> None:
    found = made_clique("s-0-a", condition(BREACHED, "True", LATER), condition(CLIQUE_SCHEDULED, "True"))
    (breach,) = clique_breaches(OWNER, [found], CREATED + LATER + after)
    assert breach.is_over == is_over
