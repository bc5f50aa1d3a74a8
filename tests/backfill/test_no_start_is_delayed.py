"""No reserved start is delayed by a job that passed and kept its limit, on random traces with and without racks."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.tools.simulate.trace.cluster import ClusterShape
from bosket.tools.simulate.trace.job import TraceJob, with_limits
from bosket.tools.simulate.trace.policy import configuration_of
from bosket.tools.simulate.trace.run import Outcome, replay

HOUR = 3600.0


def trace(seed: int) -> list[TraceJob]:
    draw = random.Random(seed)
    times = sorted(draw.uniform(0, 30) * HOUR for _ in range(60))
    sizes = [1, 1, 2, 4, 8, 8, 12, 16, 24, 32]
    return [
        TraceJob(f"job-{number:02}", 1.5e9 + round(when), float(draw.randint(1, 60) * 300), draw.choice(sizes), "c")
        for number, when in enumerate(times)
    ]


def outcome(seed: int, shape: ClusterShape, overestimate: float, most: int) -> Outcome:
    arguments = {"largeGPUs": "16", "after": "1h", "reservations": str(most)}
    return replay(with_limits(trace(seed), overestimate, seed), shape, configuration_of("backfill", arguments))


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    overestimate=st.sampled_from([1.0, 3.0]),
    racks=st.sampled_from([None, 2, 4]),
    per_node=st.sampled_from([8, 64]),
    most=st.integers(1, 4),
)
def test_no_reserved_start_is_delayed(
    seed: int, overestimate: float, racks: int | None, per_node: int, most: int
) -> None:
    found = outcome(seed, ClusterShape(64, per_node, racks), overestimate, most)
    assert not found.never_started
    assert found.delayed_reservations == 0


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_node_holds_more_than_it_has(seed: int) -> None:
    found = outcome(seed, ClusterShape(64), 3.0, 4)
    changes = sorted(
        change for run in found.runs for change in ((run.started, 1, run.job.gpus), (run.ended, 0, -run.job.gpus))
    )
    used = 0
    for _, _, gpus in changes:
        used += gpus
        assert used <= 64
