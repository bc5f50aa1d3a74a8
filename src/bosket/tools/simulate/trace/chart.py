"""A picture of a replayed trace as SVG: how long jobs waited, how much of the cluster was in use, and who held it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final
from xml.sax.saxutils import escape

from bosket.tools.simulate.chart import ticks
from bosket.tools.simulate.trace.figures import HOUR, SIZES
from bosket.tools.simulate.trace.run import Outcome, Run

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT, _PANEL = 1000, 70, 170, 50, 190, 260
_DAY: Final = 24 * HOUR
_POINTS: Final = 300
#: distinguishable for people with colour vision deficiency
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555")
_SIZE_NAMES: Final = {"lt8": "below 8 GPUs", "8to31": "8 to 31 GPUs", "ge32": "32 GPUs and more"}

_Line = tuple[str, list[tuple[float, float]]]  #: its name; (days, amount) of its points


def draw(outcome: Outcome, *, title: str, gpus: int) -> str:
    """The chart of a replay on a cluster with so many GPUs."""
    runs = outcome.runs
    begin = min((run.job.arrival for run in runs), default=0.0)
    end = max((run.ended for run in runs), default=begin + _DAY)
    moments = [begin + (end - begin) * number / _POINTS for number in range(_POINTS + 1)]
    clusters = sorted({run.job.cluster for run in runs})
    panels: list[tuple[str, list[_Line], float | None]] = [
        ("Hours that jobs had waited when they started, mean of a day", list(_waits(runs, begin)), None),
        ("GPUs in use, and asked for by jobs that wait", [*_use(runs, moments)], float(gpus)),
        ("GPUs held, by cluster of the trace", [_held(name, runs, moments) for name in clusters], float(gpus)),
    ]
    height = _TOP + _PANEL * len(panels) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="17" font-weight="bold">{escape(title)}</text>',
    ]
    days = (end - begin) / _DAY
    for number, (caption, lines, capacity) in enumerate(panels):
        parts += _panel(_TOP + number * _PANEL, caption, lines, days, capacity)
    return "\n".join([*parts, "</svg>", ""])


def _waits(runs: Sequence[Run], begin: float) -> Iterator[_Line]:
    for size, name in _SIZE_NAMES.items():
        by_day: dict[int, list[float]] = {}
        for run in runs:
            if SIZES[size](run.job):
                by_day.setdefault(int((run.started - begin) / _DAY), []).append(run.wait_seconds / HOUR)
        if by_day:
            yield name, [(day + 0.5, fmean(hours)) for day, hours in sorted(by_day.items())]


def _use(runs: Sequence[Run], moments: Sequence[float]) -> Iterator[_Line]:
    yield _held("in use", runs, moments, everybody=True)
    waits = [(run.job.arrival, run.started, run.job.gpus) for run in runs if run.wait_seconds > 0]
    yield "asked for", _over_time(waits, moments)


def _held(name: str, runs: Sequence[Run], moments: Sequence[float], *, everybody: bool = False) -> _Line:
    mine = [(run.started, run.ended, run.job.gpus) for run in runs if everybody or run.job.cluster == name]
    return name, _over_time(mine, moments)


def _over_time(spans: Sequence[tuple[float, float, int]], moments: Sequence[float]) -> list[tuple[float, float]]:
    """(days since the first moment, mean of all amounts) between one moment and the next, of (from, to, amount)."""
    begin, step = moments[0], moments[1] - moments[0]
    sums = [0.0] * (len(moments) - 1)
    for start, end, amount in spans:
        first, last = int((start - begin) / step), int((end - begin) / step)
        for place in range(max(first, 0), min(last + 1, len(sums))):
            low, high = moments[place], moments[place + 1]
            sums[place] += amount * max(0.0, min(end, high) - max(start, low)) / step
    return [
        ((low + high - 2 * begin) / 2 / _DAY, amount)
        for (low, high), amount in zip(pairwise(moments), sums, strict=True)
    ]


def _panel(top: float, caption: str, lines: Sequence[_Line], days: float, capacity: float | None) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, top + _HEIGHT
    highest = max([capacity or 1.0, *(amount for _, points in lines for _, amount in points)])

    def x(day: float) -> str:
        return f"{_LEFT + (right - _LEFT) * day / (days or 1.0):.1f}"

    def y(amount: float) -> str:
        return f"{bottom - _HEIGHT * amount / (1.05 * highest):.1f}"

    yield f'<text x="{_LEFT}" y="{top - 6}" font-weight="bold">{escape(caption)}</text>'
    for amount in ticks(highest, 5):
        yield f'<path d="M{_LEFT},{y(amount)}H{right}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y(amount)}" dy="4" text-anchor="end">{amount:g}</text>'
    for day in ticks(days, 10):
        yield f'<text x="{x(day)}" y="{bottom + 18}" text-anchor="middle">{day:g}{" days" if not day else ""}</text>'
    yield f'<path d="M{_LEFT},{top}V{bottom}H{right}" fill="none" stroke="#222"/>'
    if capacity is not None:
        yield f'<path d="M{_LEFT},{y(capacity)}H{right}" stroke="#222" stroke-dasharray="2 3"/>'
    for number, (name, points) in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        path = "L".join(f"{x(day)},{y(amount)}" for day, amount in points)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        mark = top + 14 + 20 * number
        yield f'<path d="M{right + 12},{mark - 4}h20" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{right + 38}" y="{mark}">{escape(name)}</text>'
