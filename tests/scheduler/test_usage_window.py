"""Which part of the past counts, and how durations are read and written."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.kai import UsageParams
from bosket.api.time import parse_time
from bosket.scheduler.configuration.usage_parameters import format_prometheus_duration, parameters_from
from bosket.scheduler.configuration.usage_window import Sliding, Tumbling

NOW = parse_time("2026-03-18T14:35:20Z")  # a Wednesday


def begin(**params: Any) -> float:
    return parameters_from(UsageParams(**params)).window.start(NOW)


def test_kais_defaults() -> None:
    parameters = parameters_from(None)
    assert parameters.window == Sliding(7 * 86400.0)
    assert parameters.half_life_seconds is None
    assert (parameters.fetch_interval_seconds, parameters.staleness_seconds, parameters.wait_seconds) == (60, 300, 60)
    assert (parameters.query_timeout_seconds, parameters.resolution_seconds) == (10, 60)
    assert parameters.allocation_metrics[1] == "kai_queue_allocated_cpu_cores"


def test_a_sliding_window_reaches_back_from_now() -> None:
    assert begin(windowSize="2d") == NOW - 2 * 86400


@pytest.mark.parametrize(
    ("size", "seconds"),
    [("1y", 365 * 86400), ("1w2d3h4m5s", 788645), ("1500ms", 1.5), ("90m", 5400)],
)
def test_sizes_are_prometheus_durations(size: str, seconds: float) -> None:
    assert begin(windowSize=size) == pytest.approx(NOW - seconds, abs=1e-6)


def test_tumbling_windows_follow_one_another_from_their_origin() -> None:
    daily = {"windowType": "tumbling", "windowSize": "1d"}
    assert begin(**daily, tumblingWindowStartTime="2026-01-01T06:00:00Z") == parse_time("2026-03-18T06:00:00Z")
    assert begin(**daily, tumblingWindowStartTime="2026-03-18T14:35:20Z") == NOW
    assert begin(**daily, tumblingWindowStartTime="2026-03-17T14:35:20Z") == NOW


def test_before_the_first_tumbling_window_nothing_counts() -> None:
    assert Tumbling(60.0, NOW + 1).start(NOW) == NOW


def test_a_cron_window_begins_when_it_last_fired() -> None:
    assert begin(windowType="cron", cronString="0 0 * * mon") == parse_time("2026-03-16T00:00:00Z")


def test_a_half_life_of_nothing_is_none() -> None:
    assert parameters_from(UsageParams(halfLifePeriod="0s")).half_life_seconds is None
    assert parameters_from(UsageParams(halfLifePeriod="10m")).half_life_seconds == 600


def test_data_is_not_stale_before_it_could_be_fetched_again() -> None:
    assert parameters_from(UsageParams(fetchInterval="1h")).staleness_seconds == 3600


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604800, "1w"), (5400, "1h30m"), (1.5, "1s500ms"), (0.001, "1ms"), (31536060, "1y1m"), (0, "0s")],
)
def test_durations_are_written_as_prometheus_reads_them(seconds: float, text: str) -> None:
    assert format_prometheus_duration(seconds) == text
