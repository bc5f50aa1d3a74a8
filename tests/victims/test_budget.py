"""A search for victims goes so far as the configured budgets allow; steps are counted, not seconds."""

import math
from typing import Any

import pytest

from bosket.scheduler.configuration.configuration import SearchBudgets
from bosket.scheduler.configuration.file import parse_configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.reason import NotTried, SearchCutShort
from bosket.scheduler.solver.budget import STEPS_PER_SECOND, ActionBudget
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import configured, decided, evictions, reasons, snapshot_of

ONE_STEP = 1 / STEPS_PER_SECOND


def budget(named: str = "reclaim", **limits: Any) -> ActionBudget:
    return ActionBudget(SearchBudgets(**limits), named)


def test_seconds_are_worth_steps() -> None:
    assert budget(action={"default": 2.0}).left == 2 * STEPS_PER_SECOND


def test_an_action_that_is_not_named_has_the_default() -> None:
    limits = {"action": {"default": 2.0, "reclaim": 3.0}}
    assert budget("reclaim", **limits).left == 3 * STEPS_PER_SECOND
    assert budget("preempt", **limits).left == 2 * STEPS_PER_SECOND


def test_zero_is_without_end() -> None:
    unlimited = budget(action={"default": 0.0}, job=0.0, generator={"default": 0.0})
    assert unlimited.for_job().for_generator("NodeLocalGreedy").left == math.inf


def test_what_a_generator_spends_counts_for_its_job_and_for_the_action() -> None:
    action = budget(action={"default": 10.0}, job=5.0, generator={"default": 2.0})
    of_job = action.for_job()
    of_job.for_generator("NodeLocalGreedy").spend(300)
    assert (action.left, of_job.left) == (10 * STEPS_PER_SECOND - 300, 5 * STEPS_PER_SECOND - 300)


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        pytest.param(0, 4, id="the job's own limit"),
        pytest.param(7, 3, id="what is left of the action's"),
        pytest.param(9.5, 1, id="the least that every job gets"),
        pytest.param(20, 1, id="also when nothing is left"),
    ],
)
def test_a_job_gets_what_is_left_but_at_least_its_minimum(spent: float, expected: int) -> None:
    action = budget(action={"default": 10.0}, job=4.0, least_per_job=1.0)
    action.spend(round(spent * STEPS_PER_SECOND))
    assert action.for_job().left == expected * STEPS_PER_SECOND


@pytest.mark.parametrize(("name", "expected"), [("NodeLocalGreedy", 1), ("Another", 2), ("Endless", 4)])
def test_a_generator_gets_its_own_limit_or_the_default_but_no_more_than_the_job(name: str, expected: int) -> None:
    limits = {"default": 2.0, "NodeLocalGreedy": 1.0, "Endless": 0.0}
    made = budget(job=4.0, generator=limits).for_job().for_generator(name)
    assert made.left == expected * STEPS_PER_SECOND


def test_the_defaults_are_those_of_kai() -> None:
    action = budget()
    assert action.left == 300 * STEPS_PER_SECOND
    of_job = action.for_job()
    assert of_job.left == 240 * STEPS_PER_SECOND
    assert of_job.for_generator("NodeLocalGreedy").left == 30 * STEPS_PER_SECOND
    assert of_job.for_generator("MultiNodeGang").left == 120 * STEPS_PER_SECOND


def two_jobs_reclaim(**limits: Any) -> Decisions:
    return decided(
        node("n1", gpus=4),
        [queue("mine", quota=4), queue("theirs", quota=0, weight=0)],
        [each for i in range(4) for each in job(f"old{i}", on="n1", queue="theirs")],
        [each for i in range(2) for each in job(f"new{i}", queue="mine")],
        configuration=configured("allocate", "reclaim", budgets=SearchBudgets(**limits)),
    )


def test_when_the_actions_budget_is_used_up_it_stops_and_says_so() -> None:
    decisions = two_jobs_reclaim(action={"default": ONE_STEP})
    assert evictions(decisions) == {"old3-0": "new0"}, "what was begun is finished"
    told = reasons(decisions)["new1"].splitlines()[-1]
    assert told == (
        "The budget for finding jobs to evict (scenarioSearchBudgets) in reclaim was used up before it was this job's "
        "turn"
    )


def test_each_job_gets_its_minimum_though_the_actions_budget_is_used_up() -> None:
    decisions = two_jobs_reclaim(action={"default": ONE_STEP}, least_per_job=ONE_STEP)
    assert evictions(decisions) == {"old3-0": "new0", "old2-0": "new1"}


def test_budgets_of_other_actions_do_not_matter() -> None:
    decisions = two_jobs_reclaim(action={"default": 0.0, "preempt": ONE_STEP})
    assert len(evictions(decisions)) == 2


def large_and_small(**limits: Any) -> Decisions:
    """A gang of 2 × 4 GPUs, for which both nodes must be emptied, and a job of one GPU behind it."""
    nodes = [node(f"n{i}", gpus=4) for i in range(2)]
    return decided(
        nodes,
        [queue("mine", quota=9), queue("theirs", quota=0, weight=0)],
        [each for i in range(8) for each in job(f"old{i}", on=f"n{i % 2}", queue="theirs")],
        job("large", 2, gpus=4, queue="mine"),
        job("small", gpus=1, queue="mine"),
        configuration=configured("allocate", "reclaim", budgets=SearchBudgets(**limits)),
    )


def test_a_job_whose_own_budget_is_used_up_is_told_so_and_the_others_go_on() -> None:
    decisions = large_and_small(job=ONE_STEP)
    assert evictions(decisions) == {"old7-0": "small"}
    assert "was used up before the search was complete" in reasons(decisions)["large"]


def test_without_bounds_the_large_one_is_served() -> None:
    decisions = large_and_small(job=0.0)
    assert len(evictions(decisions)) == 8
    assert "scenarioSearchBudgets" not in reasons(decisions).get("small", "")


def test_a_generator_that_has_used_up_its_budget_leaves_it_to_the_next() -> None:
    decisions = large_and_small(generator={"default": 0.0, "NodeLocalGreedy": ONE_STEP})
    assert len(evictions(decisions)) == 8


def test_a_job_for_which_all_generators_were_cut_short_is_told_so() -> None:
    decisions = large_and_small(generator={"default": ONE_STEP})
    assert "was used up before the search was complete" in reasons(decisions)["large"]


def test_budgets_come_from_the_configuration_file() -> None:
    configuration = parse_configuration(
        "actions: allocate, reclaim\nscenarioSearchBudgets: {maxActionSearchDuration: {reclaim: 4ms}}",
        known_actions=["allocate", "reclaim"],
    )
    decisions = decided(
        node("n1", gpus=2),
        [queue("mine", quota=2), queue("theirs", quota=0, weight=0)],
        [each for i in range(2) for each in job(f"old{i}", on="n1", queue="theirs")],
        [each for i in range(2) for each in job(f"new{i}", queue="mine")],
        configuration=configuration,
    )
    assert evictions(decisions) == {"old1-0": "new0"}


def test_looking_for_victims_costs_as_well_though_nothing_could_be_tried_with_them() -> None:
    """The one node that is large enough is held by the job that comes last of all victims."""
    decisions = decided(
        [*(node(f"n{i}", gpus=2) for i in range(3)), node("n3", gpus=3)],
        [queue("mine", quota=9), queue("theirs", quota=0, weight=0)],
        job("important", on="n3", gpus=3, queue="theirs", priority=80),
        [each for i in range(6) for each in job(f"old{i}", on=f"n{i % 3}", queue="theirs")],
        job("new", gpus=3, queue="mine"),
        configuration=configured("allocate", "reclaim", budgets=SearchBudgets(job=2 * ONE_STEP)),
    )
    assert "was used up before the search was complete" in reasons(decisions)["new"]


def test_a_job_that_would_not_fit_if_everybody_went_is_not_searched_for() -> None:
    """A part of it would fit, and would be searched for first."""
    decisions = decided(
        [node(f"n{i}", gpus=2) for i in range(3)],
        [queue("mine", quota=9), queue("theirs", quota=0, weight=0)],
        [each for i in range(6) for each in job(f"old{i}", on=f"n{i % 3}", queue="theirs")],
        job("new", 4, gpus=2, queue="mine"),
        configuration=configured("allocate", "reclaim"),
    )
    assert decisions.searches.tried["reclaim"] == 1
    assert not decisions.searches.scenarios
    assert not evictions(decisions)


def test_a_job_is_told_every_reason_that_has_no_code_of_its_own() -> None:
    snapshot = snapshot_of(node("n1", gpus=0), queue("q"), job("g"))
    session = open_session(snapshot, configured("allocate"))
    (found,) = snapshot.jobs.values()
    state = session.jobs.state(found)
    for reason in (NotTried("q", 1), SearchCutShort("reclaim", begun=False), SearchCutShort("preempt", begun=False)):
        session.outcome.not_placed(state, reason)
    told = reasons(session.close())["g"].splitlines()
    assert len(told) == 2, "of two of the same kind the first is kept"
    assert "in reclaim" in told[1]
