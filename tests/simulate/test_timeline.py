"""Queues that compete over time: use evens out, without use in the past nothing does, and nobody thrashes."""

from __future__ import annotations

import io
from itertools import pairwise
from statistics import mean

import pytest

from bosket.tools.simulate.document import InvalidDocument
from bosket.tools.simulate.scenario import Scenario, read_scenario
from bosket.tools.simulate.timeline import Point, run, write_csv

TURNS = """
Cycles: {cycles}
WindowSize: 40
KValue: {k}
Nodes: [{{GPUs: 4}}]
Queues: [{{Name: top}}, {{Name: a, Parent: top, Weight: {weight}}}, {{Name: b, Parent: top}}]
Jobs: {{a: {{GPUs: {gpus}, NumJobs: 100}}, b: {{GPUs: {gpus}, NumJobs: 100}}}}
"""


def scenario(*, cycles: int = 200, k: float = 1.0, weight: float = 1.0, gpus: int = 4) -> Scenario:
    return read_scenario(TURNS.format(cycles=cycles, k=k, weight=weight, gpus=gpus), fail)


def fail(problem: str) -> None:
    raise AssertionError(problem)


def simulated(given: Scenario) -> dict[str, list[Point]]:
    series: dict[str, list[Point]] = {}
    for points in run(given):
        for point in points:
            series.setdefault(point.queue, []).append(point)
    return series


def held(points: list[Point]) -> list[float]:
    return [point.allocation for point in points]


def switches(points: list[Point]) -> int:
    return sum(before.allocation != after.allocation for before, after in pairwise(points))


def test_jobs_that_need_the_whole_cluster_take_turns_and_use_evens_out() -> None:
    series = simulated(scenario(cycles=400))
    assert mean(held(series["a"][80:])) == pytest.approx(2, abs=0.3)
    assert mean(held(series["b"][80:])) == pytest.approx(2, abs=0.3)
    assert 4 <= switches(series["a"]) <= 60  # turns take long: the window is forty cycles
    assert all(point.allocation in (0, 4) for points in series.values() for point in points)


def test_without_k_the_past_does_not_count() -> None:
    """Shares are those of the plain division in every cycle, and whoever came first keeps the cluster."""
    series = simulated(scenario(k=0))
    assert {point.fair_share for name in ("a", "b") for point in series[name]} == {2.0}
    assert switches(series["a"]) == 0
    assert {*held(series["a"]), *held(series["b"])} == {0.0, 4.0}


def test_small_jobs_share_the_cluster_at_any_time() -> None:
    for k in (0.0, 1.0):
        series = simulated(scenario(cycles=100, k=k, gpus=1))
        assert held(series["a"][5:]) == held(series["b"][5:]) == [2.0] * 95


def test_over_time_use_follows_weight() -> None:
    """With a strong k, a queue is pushed out when it used a quarter more than its part, and comes back as far below."""
    series = simulated(scenario(cycles=400, weight=3.0, k=4.0))
    used = mean(held(series["a"][80:])) / 4
    assert used == pytest.approx(0.75, abs=0.1)


def test_inner_queues_are_the_sum_of_those_below() -> None:
    for top, a, b in zip(*simulated(scenario(cycles=60)).values(), strict=True):
        assert top.allocation == a.allocation + b.allocation
        assert top.fair_share == 4


def test_a_long_line_of_jobs_changes_nothing() -> None:
    """Those that could never run at once aren't even shown to the scheduler."""
    short = scenario(cycles=60)
    long = read_scenario(TURNS.format(cycles=60, k=1.0, weight=1.0, gpus=4).replace("100", "3"), fail)
    assert simulated(short) == simulated(long)


def test_every_run_is_the_same() -> None:
    assert simulated(scenario(cycles=60)) == simulated(scenario(cycles=60))


def test_a_half_life_lets_old_use_fade() -> None:
    fading = read_scenario(TURNS.format(cycles=300, k=1.0, weight=1.0, gpus=4) + "HalfLifePeriod: 5\n", fail)
    steady = scenario(cycles=300)
    assert switches(simulated(fading)["a"]) > switches(simulated(steady)["a"])


def test_nodes_are_as_many_as_counted_and_pods_of_a_job_start_one_by_one() -> None:
    text = "Cycles: 3\nNodes: [{GPUs: 2, Count: 3}]\nQueues: [{Name: q}]\nJobs: {q: {GPUs: 1, NumPods: 5, NumJobs: 1}}"
    assert held(simulated(read_scenario(text, fail))["q"]) == [5.0] * 3


def test_quota_comes_before_history() -> None:
    text = """
    Cycles: 120
    WindowSize: 40
    Nodes: [{GPUs: 4}]
    Queues: [{Name: a, DeservedGPUs: 3}, {Name: b}]
    Jobs: {a: {GPUs: 1, NumJobs: 9}, b: {GPUs: 1, NumJobs: 9}}
    """
    series = simulated(read_scenario(text, fail))
    assert min(held(series["a"][2:])) >= 3


def test_what_is_left_out_is_as_in_kais_tool() -> None:
    found = read_scenario("queues: [{name: q, Priority: null}]\nKValue: null", fail)
    assert (found.cycles, found.window, found.half_life, found.k) == (100, 5, None, 1.0)
    (queue,) = found.queues
    assert (queue.parent, queue.priority, queue.deservedgpus, queue.weight) == ("", 100, 0.0, 1.0)


def test_the_csv_is_kais() -> None:
    out = io.StringIO()
    write_csv([Point(0, "q", 4.0, 2.5), Point(1, "a,b", 0.0, 0.0)], out)
    assert out.getvalue() == ('Time,QueueID,Allocation,FairShare\n0,q,4.000000,2.500000\n1,"a,b",0.000000,0.000000\n')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "not a YAML document"),
        ("- a", "the document must be a map, it is list"),
        ("Cycles: many", "cycles: Expected `int`, got `str`"),
        ("Cycles: 0", "Cycles is 0, it must be 1 or more"),
        ("KValue: -1", "KValue is -1, it must be 0 or more"),
        ("Nodes: [{GPUs: -1}]", "Nodes[0].GPUs is -1, it must be 0 or more"),
        ("Nodes: [{}]", "Nodes[0]: Object missing required field `gpus`"),
        ("Queues: [{Name: q}, {Name: q}]", "Queues[1].Name is 'q', each queue must have its own"),
        ("Queues: [{Name: q, Weight: -1}]", "Queues[0] (q).Weight is -1, it must be 0 or more"),
        ("Jobs: [a]", "Jobs must be a map of queues, it is list"),
        ("Jobs: {q: {GPUs: 1}}", "Jobs names q, which is not among the queues"),
        (
            "{Queues: [{Name: p}, {Name: q, Parent: p}], Jobs: {p: {GPUs: 1}}}",
            "Jobs names p, which has queues below it",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, complaint: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        read_scenario(text, fail)
    assert str(error.value).startswith(complaint)


def test_a_queue_without_its_parent_is_named_when_it_runs() -> None:
    lost = read_scenario("Queues: [{Name: q, Parent: nobody}]", fail)
    with pytest.raises(InvalidDocument, match="its parent queue 'nobody' does not exist"):
        list(run(lost))


def test_keys_that_nobody_knows_are_reported() -> None:
    said: list[str] = []
    read_scenario("Cycle: 3\nNodes: [{GPUs: 1, Name: x}]", said.append)
    assert said == ["Cycle has no effect", "Nodes[0].Name has no effect"]
