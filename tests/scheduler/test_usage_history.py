"""How much of the cluster a queue used, of samples: by the rules of Prometheus, and whatever is forgotten meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.scheduler.configuration.usage_window import Sliding, Tumbling
from bosket.scheduler.model.resource import NOTHING
from bosket.scheduler.usage.history import History, Sample

START = 1_750_000_000.0 // 60 * 60
CAPACITY = (10.0, 1000.0, 4e9)


def history_of(samples: list[Sample]) -> History:
    history = History()
    for sample in samples:
        add(history, sample)
    return history


def add(history: History, sample: Sample) -> None:
    history.append(sample.milliseconds, sample.capacity, history.changes(sample))


def minutes(*gpus: float, queue: str = "a") -> list[Sample]:
    """A sample each minute, one second after the full one, with so many GPUs in use."""
    return [
        Sample(START + 60 * minute + 1, CAPACITY, {queue: (held, 0.0, 0.0)} if held else {})
        for minute, held in enumerate(gpus)
    ]


def parts(history: History, seconds: float, now: float, **options: float) -> dict[str, float]:
    found = history.parts(Sliding(seconds), now, resolution_seconds=60.0, **options)
    return {queue: used[0] for queue, used in found.items()}


def test_usage_is_what_was_held_over_what_there_was() -> None:
    history = history_of(minutes(5, 5, 10, 0))
    # The steps are the full minutes; each sees the sample of the minute before.
    assert parts(history, 3600, START + 240) == {"a": pytest.approx(20 / 40)}


def test_only_the_window_counts() -> None:
    history = history_of(minutes(10, 10, 0, 0))
    assert parts(history, 120, START + 240) == {}
    assert parts(history, 180, START + 240) == {"a": pytest.approx(10 / 30)}


def test_use_fades_with_the_half_life() -> None:
    history = history_of(minutes(10, 0, 0))
    weights = [0.5 ** (age / 60) for age in (120, 60, 0)]
    assert parts(history, 3600, START + 180, half_life_seconds=60.0) == {"a": pytest.approx(weights[0] / sum(weights))}


def test_a_time_that_nobody_watched_counts_for_nobody() -> None:
    """After five minutes a sample says nothing any more."""
    samples = [Sample(START + 1, CAPACITY, {"a": (10.0, 0.0, 0.0)}), Sample(START + 3601, CAPACITY, {})]
    # Four steps of the first sample's lookback, and the one after the second sample.
    assert parts(history_of(samples), 7200, START + 3660) == {"a": pytest.approx(5 / 6)}


def test_what_the_cluster_does_not_have_nobody_used() -> None:
    samples = [Sample(START, (0.0, 1000.0, 0.0), {"a": (4.0, 500.0, 7.0)})]
    found = history_of(samples).parts(Sliding(600), START + 60, resolution_seconds=60.0)
    assert found["a"] == pytest.approx((0.0, 0.5, 0.0), abs=0)
    assert set(found) == {"a"}


def test_an_empty_history_knows_nobody() -> None:
    assert History().parts(Sliding(600), START, resolution_seconds=60.0) == {}
    assert parts(history_of(minutes(1)), 600, START - 3600) == {}


def test_a_clock_that_went_back_undoes_what_has_not_happened() -> None:
    history = history_of(minutes(10, 10, 10))
    assert parts(history, 600, START + 119) == {"a": 1.0}
    history.forget_since(round((START + 60) * 1000))
    add(history, Sample(START + 60, CAPACITY, {}))
    assert parts(history, 600, START + 119) == {}


AMOUNTS = st.sampled_from([0.0, 1.0, 3.0, 8.0])
GAPS = st.sampled_from([17.0, 30.0, 60.0, 61.5, 299.0, 300.0, 900.0])


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    time = START + draw(st.floats(0, 60).map(lambda value: round(value, 3)))
    samples = []
    for gap in draw(st.lists(GAPS, min_size=1, max_size=12)):
        held = {queue: (draw(AMOUNTS), draw(AMOUNTS), 0.0) for queue in ("a", "b")}
        capacity = (10.0, draw(st.sampled_from([0.0, 50.0])), 1e9)
        samples.append(Sample(time, capacity, {queue: amounts for queue, amounts in held.items() if any(amounts)}))
        time += gap
    return samples


WINDOWS = st.one_of(
    st.sampled_from([60.0, 600.0, 3600.0]).map(Sliding),
    st.sampled_from([600.0, 1000.0]).map(lambda size: Tumbling(size, START - 5000)),
)
HALF_LIVES = st.sampled_from([None, 100.0, 3600.0])


@given(histories(), WINDOWS, HALF_LIVES, st.floats(0, 900), st.sampled_from([15.0, 60.0]))
def test_the_numbers_are_those_of_step_by_step_evaluation(
    samples: list[Sample], window: Sliding | Tumbling, half_life: float | None, after: float, resolution: float
) -> None:
    now = round(samples[-1].time + after, 3)
    found = history_of(samples).parts(window, now, resolution_seconds=resolution, half_life_seconds=half_life)
    assert_same(found, step_by_step(samples, window, now, resolution, half_life))


@given(histories(), WINDOWS, HALF_LIVES, st.floats(0, 900))
def test_forgetting_what_is_before_the_window_changes_nothing(
    samples: list[Sample], window: Sliding | Tumbling, half_life: float | None, after: float
) -> None:
    now = samples[-1].time + after
    options: dict[str, Any] = {"resolution_seconds": 60.0, "half_life_seconds": half_life}
    history = history_of(samples)
    expected = history.parts(window, now, **options)
    history.forget_before(round((window.start(now) - 300) * 1000))
    assert_same(history.parts(window, now, **options), expected)
    more = Sample(now + 1000, CAPACITY, {"a": (2.0, 0.0, 0.0)})
    later = history_of([*samples, more]).parts(Sliding(900.0), now + 1500, **options)
    add(history, more)
    assert_same(history.parts(Sliding(900.0), now + 1500, **options), later)


def step_by_step(
    samples: list[Sample], window: Sliding | Tumbling, now: float, resolution: float, half_life: float | None
) -> dict[str, tuple[float, ...]]:
    """What Prometheus does with `sum_over_time((metric)[window:resolution])`, in integers of milliseconds."""
    step = round(resolution * 1000)
    first, end = round(window.start(now) * 1000) // step + 1, round(now * 1000)
    capacity, used = [0.0] * 3, {"a": [0.0] * 3, "b": [0.0] * 3}
    for moment in range(first * step, end + 1, step):
        seen = [each for each in samples if moment - 300_000 < each.milliseconds <= moment]
        if not seen:
            continue
        weight = 0.5 ** ((end - moment) / 1000 / half_life) if half_life else 1.0
        for place in range(3):
            capacity[place] += weight * seen[-1].capacity[place]
            for queue, amounts in used.items():
                amounts[place] += weight * seen[-1].held.get(queue, NOTHING)[place]
    return {
        queue: tuple(amount / total if total else 0.0 for amount, total in zip(amounts, capacity, strict=True))
        for queue, amounts in used.items()
        if any(amounts)
    }


def assert_same(found: Mapping[str, tuple[float, ...]], expected: Mapping[str, tuple[float, ...]]) -> None:
    assert found.keys() == expected.keys()
    for queue, amounts in found.items():
        assert amounts == pytest.approx(expected[queue], rel=1e-9, abs=1e-12)
