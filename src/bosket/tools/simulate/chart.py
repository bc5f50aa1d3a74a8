"""A picture of a simulation as SVG: what queues held, and what was their fair share, over time.

Written by hand, so that it needs no library; any browser shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

_WIDTH: Final = 1000
_LEFT, _RIGHT, _TOP, _CAPTION, _GAP, _BOTTOM = 64, 24, 40, 24, 58, 52
_PANEL_HEIGHT: Final = 230
_LEGEND_ROW: Final = 22
#: distinguishable for people with colour vision deficiency
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555")
_DASHES: Final = ("", "7 4", "2 3")
_LETTER_WIDTH: Final = 7.2


@dataclass(frozen=True, slots=True)
class Series:
    """One queue, cycle by cycle, in GPUs."""

    allocation: Sequence[float]
    fair_share: Sequence[float]


def draw(queues: Mapping[str, Series], *, title: str, gpus: float, window: int) -> str:
    """The chart of these queues in a cluster with so many GPUs; `window` cycles of the past counted."""
    legend = list(_legend(queues))
    legend_height = _LEGEND_ROW * (1 + max((row for row, _, _ in legend), default=0))
    first = _TOP + legend_height + _CAPTION
    second = first + _PANEL_HEIGHT + _GAP
    height = second + _PANEL_HEIGHT + _BOTTOM
    middle = (_LEFT + _WIDTH - _RIGHT) // 2
    cycles = max((len(series.allocation) for series in queues.values()), default=0)
    shares = [share for series in queues.values() for share in series.fair_share]
    scale = _Scale(max(cycles, 1), max([gpus, 1.0, *shares]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="26" font-size="17" font-weight="bold">{escape(title)}</text>',
        *_legend_marks(legend),
        *_panel(first, f"GPUs held (thin), and their mean over {window} cycles (thick)", scale),
        *_panel(second, "Fair share in GPUs", scale),
        f'<text x="{middle}" y="{height - 12}" text-anchor="middle">cycle</text>',
    ]
    for number, series in enumerate(queues.values()):
        style = _style(number)
        parts.append(_line(scale, first, series.allocation, f'{style} stroke-width="1" stroke-opacity="0.55"'))
        parts.append(_line(scale, first, _running_mean(series.allocation, window), f'{style} stroke-width="2.2"'))
        parts.append(_line(scale, second, series.fair_share, f'{style} stroke-width="1.6"'))
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Scale:
    """From cycles and GPUs to points on the paper."""

    cycles: int
    highest: float

    def x(self, cycle: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * cycle / self.cycles

    def y(self, top: float, amount: float) -> float:
        return top + _PANEL_HEIGHT * (1 - amount / (1.05 * self.highest))


def _style(number: int) -> str:
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return f'fill="none" stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _line(scale: _Scale, top: float, values: Sequence[float], style: str) -> str:
    """Steps: an amount holds for its whole cycle. Only changes are drawn."""
    path, last = "", math.nan
    for cycle, value in enumerate(values):
        if value != last:
            path += f"{'H' + _number(scale.x(cycle)) + 'V' if path else f'M{_number(scale.x(cycle))},'}"
            path += _number(scale.y(top, value))
            last = value
    return f'<path d="{path}H{_number(scale.x(len(values)))}" {style}/>' if path else ""


def _panel(top: float, caption: str, scale: _Scale) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, top + _PANEL_HEIGHT
    yield f'<text x="{_LEFT}" y="{top - 8}" font-weight="bold">{escape(caption)}</text>'
    for amount in ticks(scale.highest, 6):
        y = _number(scale.y(top, amount))
        yield f'<path d="M{_LEFT},{y}H{right}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y}" dy="4" text-anchor="end">{amount:g}</text>'
    for cycle in ticks(scale.cycles, 10):
        x = _number(scale.x(cycle))
        yield f'<path d="M{x},{bottom}v5" stroke="#222"/>'
        yield f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{cycle:g}</text>'
    yield f'<path d="M{_LEFT},{top}V{bottom}H{right}" fill="none" stroke="#222"/>'


def _legend(queues: Mapping[str, Series]) -> Iterator[tuple[int, float, tuple[int, str]]]:
    """Row, place in it, and which queue; as many rows as the names need."""
    row, x = 0, float(_LEFT)
    for number, name in enumerate(queues):
        width = 44 + _LETTER_WIDTH * len(name)
        if x > _LEFT and x + width > _WIDTH - _RIGHT:
            row, x = row + 1, float(_LEFT)
        yield row, x, (number, name)
        x += width


def _legend_marks(legend: Sequence[tuple[int, float, tuple[int, str]]]) -> Iterator[str]:
    for row, x, (number, name) in legend:
        y = _TOP + 10 + _LEGEND_ROW * row
        yield f'<path d="M{_number(x)},{y}h24" {_style(number)} stroke-width="3"/>'
        yield f'<text x="{_number(x + 30)}" y="{y + 4}">{escape(name)}</text>'


def _running_mean(values: Sequence[float], window: int) -> list[float]:
    means, total = [], 0.0
    for place, value in enumerate(values):
        total += value - (values[place - window] if place >= window else 0.0)
        means.append(round(total / min(place + 1, window), 6))
    return means


def ticks(highest: float, about: int) -> list[float]:
    """Round numbers from 0 to `highest`, about so many."""
    rough = highest / about
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= rough * 0.999)
    return [round(step * number, 10) for number in range(math.floor(highest / step * 1.0001) + 1)]


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
