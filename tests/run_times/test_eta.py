"""When a job starts is found out by simulating the coming cycles; intervals are corrected by how earlier ones fared."""

from __future__ import annotations

import random
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import ObjectKey
from bosket.cli.main import main
from bosket.scheduler.answers.conformal import MOST_RESOLVED, Calibration, Interval, Resolved
from bosket.scheduler.answers.eta import StartEstimate, estimate_start
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.run_times import EndedJob, JobKind
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, queue
from bosket.testing.cluster import NOW, configured, state_of
from bosket.tools.simulate.trace.cluster import ClusterShape
from bosket.tools.simulate.trace.figures import figures
from bosket.tools.simulate.trace.job import TraceJob, with_limits
from bosket.tools.simulate.trace.policy import Policy, configuration_of
from bosket.tools.simulate.trace.run import replay
from tests.backfill.scene import HOUR, backfilling, timed
from tests.cli.everyday import HOSTILE, controls, owned

ALLOCATE = configured("allocate")
SCENE = [
    node("n1"),
    node("n2"),
    queue("q"),
    *timed("a", hours=10, ran=5, on="n1"),
    *timed("b", hours=9, ran=2, on="n2"),
]


def estimate(state: ClusterState, name: str, configuration: Configuration = ALLOCATE) -> StartEstimate:
    return estimate_start(state, configuration, NOW, ObjectKey("default", name))


def hours(found: StartEstimate) -> tuple[float, ...]:
    assert found.wait is not None
    return tuple(each / HOUR for each in found.wait)


def test_with_declared_run_times_the_start_is_certain() -> None:
    found = estimate(state_of([*SCENE, *timed("x", hours=1), *timed("y", hours=1)]), "y")
    assert (found.verdict, found.basis, hours(found)) == ("not-now", "declared", (6, 6, 6))


def test_it_says_for_whom_the_job_waits() -> None:
    found = estimate(state_of([*SCENE, *timed("large", 2)]), "large")
    assert hours(found) == (7, 7, 7)
    assert [(str(key), (end - NOW) / HOUR) for key, end in found.waits_for] == [("default/a", 5), ("default/b", 7)]


def test_a_job_that_has_room_starts_in_the_next_cycle() -> None:
    found = estimate(state_of([*SCENE, node("n3"), *timed("x")]), "x")
    assert (found.verdict, hours(found)) == ("next-cycle", (0, 0, 0))


def test_a_job_that_runs_is_said_to_run() -> None:
    assert estimate(state_of(SCENE), "a").verdict == "running"


def test_where_nobody_knows_how_long_jobs_run_the_start_is_unknown() -> None:
    found = estimate(state_of([node("n1"), queue("q"), *timed("a", ran=5, on="n1"), *timed("x")]), "x")
    assert (found.verdict, found.wait, found.basis) == ("unknown", None, "unknown")


def test_a_job_that_never_fits_has_no_start() -> None:
    assert estimate(state_of([*SCENE, *timed("huge", 3)]), "huge").verdict == "unknown"


def test_learned_run_times_give_an_interval() -> None:
    state = state_of([node("n1"), queue("q"), *timed("train-1", ran=1, on="n1"), *timed("x")])
    kind = JobKind(queue="q", workload="", name="train", user="", size=8, is_declared=False)
    state.run_times.put([EndedJob(kind, each * HOUR) for each in range(1, 21)])
    found = estimate(state, "x")
    assert (found.basis, found.samples) == ("learned", 20)
    low, middle, high = hours(found)
    assert 0 < low < 6 < middle < 14 < high <= 20


def test_evictions_to_come_are_foreseen() -> None:
    """What `a` holds over the share of its queue goes to the job of the other queue within a cycle or two."""
    queues = [queue("q", quota=8), queue("other", quota=8)]
    scene = [node("n1"), node("n2"), *queues, *timed("a", 2, hours=100, ran=1, on="n1", min_member=1, gpus=4)]
    scene += timed("c", hours=100, ran=1, on="n2")
    found = estimate(state_of([*scene, *timed("x", queue="other")]), "x", Configuration())
    assert found.verdict in ("not-now", "next-cycle")
    assert hours(found)[1] < 1


@pytest.mark.parametrize("configuration", [ALLOCATE, Configuration(), backfilling()])
def test_a_question_changes_nothing(configuration: Configuration) -> None:
    scene = [*SCENE, *timed("large", 2, hours=1, waited=3), *timed("x", hours=1, waited=1)]
    state = state_of(scene)
    state.remember(decide(state.snapshot(NOW), configuration), NOW)
    before, run_times = state.snapshot(NOW), state.run_times.entries()
    expected = decide(before, configuration)
    estimate(state, "large", configuration)
    after = state.snapshot(NOW)
    assert after.reservations == before.reservations
    assert state.run_times.entries() == run_times
    assert {key: [task.status for task in job.tasks] for key, job in after.jobs.items()} == {
        key: [task.status for task in job.tasks] for key, job in before.jobs.items()
    }
    found = decide(after, configuration)
    assert [(each.task.key, each.node) for each in found.binds] == [(e.task.key, e.node) for e in expected.binds]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(get_args(Policy)))
def test_with_exact_limits_and_no_later_arrivals_the_error_is_zero(seed: int, policy: Policy) -> None:
    draw = random.Random(seed)
    jobs = [
        TraceJob(
            f"job-{number}", 1.5e9 + number // 6, float(draw.randint(1, 40) * 600), draw.choice([1, 2, 8, 16, 32]), "c"
        )
        for number in range(18)
    ]
    last = [job for job in jobs if job.arrival == jobs[-1].arrival]
    found = replay(with_limits(jobs, 1.0, 0), ClusterShape(32), configuration_of(policy), estimates=len(jobs))
    about_last = [each for each in found.asked if each.job in {job.name for job in last}]
    assert all(each.stated.middle == each.waited_seconds for each in about_last)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_asking_changes_no_start(seed: int) -> None:
    draw = random.Random(seed)
    jobs = [
        TraceJob(
            f"job-{number}", 1.5e9 + 900.0 * number, float(draw.randint(1, 40) * 600), draw.choice([1, 4, 8, 24]), "c"
        )
        for number in range(40)
    ]
    starts = [
        [(run.job.name, run.started, run.nodes) for run in replay(jobs, ClusterShape(24), configuration_of("greedy"),
                                                                   estimates=count).runs]
        for count in (0, 10)
    ]  # fmt: skip
    assert starts[0] == starts[1]


def test_intervals_that_are_too_narrow_are_widened_until_eight_in_ten_hold() -> None:
    draw, calibration, told = random.Random(1), Calibration(), []
    for _ in range(2000):
        middle = draw.uniform(1, 50) * HOUR
        simulated = Interval(middle * 0.9, middle, middle * 1.1)
        waited = middle * draw.lognormvariate(0.3, 0.5)
        corrected = calibration.corrected(simulated)
        told.append(corrected.covers(waited))
        calibration.resolve(Resolved(simulated, corrected, waited))
    assert 0.77 < sum(told[MOST_RESOLVED:]) / len(told[MOST_RESOLVED:]) < 0.83
    assert 0.7 < (calibration.coverage or 0.0) < 0.9


def test_without_experience_nothing_is_corrected() -> None:
    assert Calibration().corrected(Interval(1, 2, 3)) == Interval(1, 2, 3)
    assert Calibration().coverage is None


def test_figures_count_what_was_asked_and_resolved() -> None:
    jobs = [TraceJob(f"job-{number}", 1.5e9, 3600.0, 8, "c") for number in range(4)]
    found = figures(
        replay(with_limits(jobs, 1.0, 0), ClusterShape(8), configuration_of("greedy"), estimates=4),
        policy="greedy", gpus=8, cpu_seconds=0.0,
    ).eta  # fmt: skip
    assert (found.asked, found.coverage80, found.median_abs_error_hours, found.unknown) == (3, 1.0, 0.0, 0)


def test_the_command_answers_about_a_snapshot_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.zip"
    state = state_of([*SCENE, *timed("x", hours=1)])
    file.write_bytes(zipped(take(state, StateOptions(), ALLOCATE, NOW)))
    assert main(["eta", "default/x", "--snapshot", str(file), "--json"]) == 0
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert (answer["verdict"], answer["basis"]) == ("not-now", "declared")
    assert answer["p10"] == answer["p50"] == answer["p90"] == "2025-06-15T20:06:40Z"
    assert answer["waits_for"] == [{"job": "default/a", "ends_p50": "2025-06-15T20:06:40Z"}]
    assert main(["eta", "x", "--snapshot", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("default/x starts in about 5h, at ")
    assert " in 8 of 10 simulated futures." in text
    assert "waits for default/a, which ends at about " in text
    assert main(["eta", "nobody", "--snapshot", str(file)]) == 1


def test_what_owners_are_called_is_printed_as_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.zip"
    state = state_of([*SCENE, *owned(timed("x", hours=1), f"[/bold]{HOSTILE}")])
    file.write_bytes(zipped(take(state, StateOptions(), ALLOCATE, NOW)))
    assert main(["eta", "x", "--snapshot", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("default/[/bold]?]0;owned?")
    assert not controls(text)


@pytest.mark.parametrize("command", ["eta", "explain"])
def test_of_a_pod_whose_pod_group_has_gone_nothing_is_asked(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "snapshot.zip"
    _group, left = timed("x", hours=1)
    file.write_bytes(zipped(take(state_of([*SCENE, left]), StateOptions(), ALLOCATE, NOW)))
    assert main([command, left.metadata.name, "--snapshot", str(file)]) == 1
    assert "pod group default/x isn't one of this scheduler's: it has gone" in capsys.readouterr().err
