"""How long a job runs is declared by its user, or learned from jobs like it that have ended."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.scheduler.model.estimates import Estimates, survival
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.run_times import EndedJob, JobKind
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.memory import decode, encode
from bosket.scheduler.state.run_times import MOST_JOBS, RunTimeHistory
from bosket.testing.build import node, queue
from bosket.testing.cluster import NOW, state_of
from tests.backfill.scene import HOUR, timed

amounts = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40)


def job_of(state: ClusterState, name: str, now: float = NOW) -> Job:
    return next(job for key, job in state.snapshot(now).jobs.items() if key.name == name)


def estimates(state: ClusterState, now: float = NOW) -> Estimates:
    snapshot = state.snapshot(now)
    return Estimates(snapshot.run_times, snapshot.jobs, now)


def with_history(*hours: float, declared: bool = False) -> ClusterState:
    """A cluster in which jobs named train-<number> of 8 GPUs in queue q have run for so many hours."""
    state = state_of([node("n1"), node("n2"), queue("q"), *timed("train-77"), *timed("busy-3", ran=5, on="n1")])
    kind = JobKind(queue="q", workload="", name="train", user="", size=8, is_declared=declared)
    state.run_times.put([EndedJob(kind, each * HOUR) for each in hours])
    return state


@given(ended=amounts, running=amounts)
def test_a_survival_curve_falls_from_one_to_zero_at_most(ended: list[float], running: list[float]) -> None:
    curve = survival(ended, running)
    assert curve.amounts == sorted(set(ended))
    assert all(before >= after >= -1e-9 for before, after in zip([1.0, *curve.alive], curve.alive, strict=False))


@given(ended=amounts)
def test_without_running_jobs_the_median_is_that_of_jobs_that_ended(ended: list[float]) -> None:
    assert survival(ended, ()).quantile(0.5) == sorted(ended)[math.ceil(len(ended) / 2) - 1]


@given(ended=amounts, running=amounts, part=st.floats(0.0, 0.99), so_far=st.floats(0.0, 2e6))
def test_no_job_is_expected_to_have_ended_before(
    ended: list[float], running: list[float], part: float, so_far: float
) -> None:
    assert survival(ended, running).quantile(part, so_far) >= so_far


def test_jobs_that_still_run_make_estimates_longer() -> None:
    assert survival([1, 2, 3, 4], [5] * 4).quantile(0.5) > survival([1, 2, 3, 4], []).quantile(0.5)


def test_a_job_that_ends_is_remembered_by_what_it_has_in_common_with_others() -> None:
    state = state_of([node("n1"), queue("q"), *timed("train-12", ran=5, on="n1")])
    state.snapshot(NOW)
    for each in timed("train-12", ran=5, on="n1"):
        state.drop(each)
    state.snapshot(NOW + HOUR)
    kind = JobKind(queue="q", workload="", name="train", user="", size=8, is_declared=False)
    assert state.run_times.entries() == (EndedJob(kind, 6 * HOUR),)


def test_of_a_job_with_a_declared_run_time_the_part_of_it_is_remembered() -> None:
    state = state_of([node("n1"), queue("q"), *timed("train-12", hours=8, ran=5, on="n1")])
    state.snapshot(NOW)
    for each in timed("train-12", hours=8, ran=5, on="n1"):
        state.drop(each)
    state.snapshot(NOW + HOUR)
    assert [each.amount for each in state.run_times.entries()] == [0.75]


def test_an_evicted_job_has_not_ended() -> None:
    state = state_of([node("n1"), queue("q"), *timed("train-12", ran=5, on="n1")])
    state.snapshot(NOW)
    for each in timed("train-12", ran=5):
        state.put(each)
    state.snapshot(NOW + HOUR)
    assert state.run_times.entries() == ()


def test_jobs_like_it_say_how_long_a_job_runs() -> None:
    state = with_history(*[1, 2, 3] * 5)
    estimate = estimates(state).of(job_of(state, "train-77"))
    assert (estimate.basis, estimate.samples) == ("learned", 15)
    assert estimate.seconds(0.5) == 2 * HOUR


def test_few_jobs_alike_leave_it_to_more_general_ones() -> None:
    state = with_history(*[1] * 3)
    state.run_times.put([EndedJob(JobKind("q", "", "other", "", 8, is_declared=False), 9 * HOUR)] * 30)
    assert estimates(state).of(job_of(state, "train-77")).seconds(0.5) == 9 * HOUR


def test_without_history_nothing_is_known() -> None:
    state = with_history()
    estimate = estimates(state).of(job_of(state, "train-77"))
    assert (estimate.basis, estimate.seconds(0.5)) == ("unknown", None)
    assert estimates(state).end(job_of(state, "busy-3"), 0.5) == math.inf


def test_what_is_declared_is_never_exceeded() -> None:
    state = with_history(*[0.5, 0.9] * 10, declared=True)
    state.run_times.restore([EndedJob(JobKind("q", "", "train", "", 8, is_declared=True), 2.0)] * 20)
    for each in timed("train-99", hours=3):
        state.put(each)
    estimate = estimates(state).of(job_of(state, "train-99"))
    assert (estimate.basis, estimate.seconds(0.9)) == ("declared", 3 * HOUR)


def test_a_job_over_its_declared_time_goes_on_for_as_long_again() -> None:
    state = state_of([node("n1"), queue("q"), *timed("late", hours=3, ran=5, on="n1")])
    assert estimates(state).end(job_of(state, "late"), 0.5) == NOW + 2 * HOUR


@pytest.mark.parametrize("count", [MOST_JOBS, MOST_JOBS + 10])
def test_what_is_remembered_is_bounded(count: int) -> None:
    history = RunTimeHistory()
    history.put(EndedJob(JobKind("q", "", "train", f"u{number}", 8, is_declared=False), 1.0) for number in range(count))
    assert len(history.entries()) == MOST_JOBS


def test_run_times_survive_a_restart() -> None:
    state = with_history(*[1, 2, 3] * 5)
    again = with_history()
    again.restore(decode(encode(state.memory(NOW))), NOW)
    assert again.snapshot(NOW).run_times.amounts == state.snapshot(NOW).run_times.amounts
