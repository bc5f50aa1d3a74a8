"""`usageDBConfig` as the stores and the live feed use it: read, checked, with KAI's defaults.

`framework.usage_db` calls this to refuse what can't be followed when a configuration is read; the stores, when they are
made. What is wrong raises `ConfigurationError` with the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bosket.api.cron import InvalidCron, parse_cron
from bosket.api.kai import UsageParams
from bosket.api.time import InvalidDuration, InvalidTime, format_duration, parse_duration, parse_time
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_window import SinceFiring, Sliding, Tumbling, Window

WHERE: Final = "usageDBConfig.usageParams"
WINDOW_TYPES: Final = ("sliding", "tumbling", "cron")
#: What Prometheus is asked for, by the keys of extraParams; first GPU, then CPU, then memory.
ALLOCATION_METRICS: Final = {
    "gpuAllocationMetric": "kai_queue_allocated_gpus",
    "cpuAllocationMetric": "kai_queue_allocated_cpu_cores",
    "memoryAllocationMetric": "kai_queue_allocated_memory_bytes",
}
CAPACITY_METRICS: Final = {
    "gpuCapacityMetric": 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
    "cpuCapacityMetric": 'sum(kube_node_status_capacity{resource="cpu"})',
    "memoryCapacityMetric": 'sum(kube_node_status_capacity{resource="memory"})',
}
_TIMES: Final = ("usageQueryTimeout", "queryResolution")
_WINDOW: Final = re.compile(r"(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?|0", re.ASCII)
#: In milliseconds, largest first.
_UNITS: Final = {
    "y": 365 * 86_400_000, "w": 7 * 86_400_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameters:
    """Which history counts, how it fades, and how often it is looked at."""

    window: Window
    half_life_seconds: float | None  #: use this long ago counts half; None: use doesn't fade
    fetch_interval_seconds: float
    staleness_seconds: float
    wait_seconds: float
    query_timeout_seconds: float
    resolution_seconds: float  #: the past is looked at in steps of this size
    allocation_metrics: tuple[str, ...]  #: of GPU, CPU and memory
    capacity_metrics: tuple[str, ...]


def parameters_from(params: UsageParams | None, report: Callable[[str], None] | None = None) -> Parameters:
    """The parameters with their defaults; `report` is called with settings that have no effect."""
    params = params or UsageParams()
    extra = params.extraParams
    for key in sorted(extra.keys() - {*_TIMES, *ALLOCATION_METRICS, *CAPACITY_METRICS}):
        if report is not None:
            report(f"{WHERE}.extraParams.{key} has no effect")
    fetch_interval = _seconds("fetchInterval", params.fetchInterval, 60.0, positive=True)
    staleness = _seconds("stalenessPeriod", params.stalenessPeriod, max(300.0, fetch_interval))
    if staleness < fetch_interval:
        raise ConfigurationError(
            f"{WHERE}.stalenessPeriod must be at least the fetchInterval, which is {format_duration(fetch_interval)}"
        )
    return Parameters(
        window=_window(params),
        half_life_seconds=_seconds("halfLifePeriod", params.halfLifePeriod, 0.0) or None,
        fetch_interval_seconds=fetch_interval,
        staleness_seconds=staleness,
        wait_seconds=_seconds("waitTimeout", params.waitTimeout, 60.0),
        query_timeout_seconds=_extra_seconds(extra, "usageQueryTimeout", 10.0),
        resolution_seconds=_extra_seconds(extra, "queryResolution", 60.0),
        allocation_metrics=tuple(extra.get(key) or metric for key, metric in ALLOCATION_METRICS.items()),
        capacity_metrics=tuple(extra.get(key) or metric for key, metric in CAPACITY_METRICS.items()),
    )


def format_prometheus_duration(seconds: float) -> str:
    """As Prometheus writes it, to the millisecond: "1w", "1h30m", "1500ms" as "1s500ms"."""
    rest = round(seconds * 1000)
    text = ""
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _window(params: UsageParams) -> Window:
    match params.windowType or WINDOW_TYPES[0]:
        case "sliding":
            return Sliding(_size(params))
        case "tumbling":
            try:
                return Tumbling(_size(params), parse_time(params.tumblingWindowStartTime or ""))
            except InvalidTime as error:
                raise ConfigurationError(f"{WHERE}.tumblingWindowStartTime: {error}") from error
        case "cron":
            _size(params)  # which doesn't count here, but isn't nonsense either
            if not params.cronString:
                raise ConfigurationError(f"{WHERE}.cronString is missing, windowType is cron")
            try:
                return SinceFiring(parse_cron(params.cronString))
            except InvalidCron as error:
                raise ConfigurationError(f"{WHERE}.cronString: {error}") from error
        case other:
            raise ConfigurationError(f"{WHERE}.windowType is {other!r}; known are {', '.join(WINDOW_TYPES)}")


def _size(params: UsageParams) -> float:
    text = params.windowSize if params.windowSize is not None else "1w"
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{WHERE}.windowSize is {text!r}, it must be a duration such as 1w or 2d")
    counts = (int(part[: -len(unit)]) if part else 0 for part, unit in zip(match.groups(), _UNITS, strict=True))
    milliseconds = sum(count * size for count, size in zip(counts, _UNITS.values(), strict=True))
    if milliseconds == 0:
        raise ConfigurationError(f"{WHERE}.windowSize is {text!r}, a window must be longer than nothing")
    return milliseconds / 1000


def _seconds(name: str, text: str | None, default: float, *, positive: bool = False) -> float:
    if text is None:
        return default
    try:
        seconds = parse_duration(text)
    except InvalidDuration as error:
        raise ConfigurationError(f"{WHERE}.{name}: {error}") from error
    if seconds < 0:
        raise ConfigurationError(f"{WHERE}.{name} is {text}, it must not be negative")
    if positive and seconds == 0:
        raise ConfigurationError(f"{WHERE}.{name} is {text}, it must be longer than nothing")
    return seconds


def _extra_seconds(extra: Mapping[str, str], name: str, default: float) -> float:
    seconds = _seconds(f"extraParams.{name}", extra.get(name), default, positive=True)
    if seconds < 0.001:
        raise ConfigurationError(f"{WHERE}.extraParams.{name} is {extra[name]}, it must be at least 1ms")
    return seconds
