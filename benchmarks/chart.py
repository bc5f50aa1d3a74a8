"""CPU time of a cycle by number of nodes, ours and Go's, as SVG: a panel for each workload, both axes logarithmic.

Written by hand, so that it needs no library. Colours follow the reader's scheme, light or dark, on a ground of the
chart's own, so that it can be read in a page of the other scheme, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from benchmarks.report import Figures

#: Workload → what it has to do. Only those that Go was measured with.
PANELS: Final = {
    "fill": "a gang of 8 for every node",
    "small": "8 single pods for every node",
    "biggang": "one gang, 8 pods for every node",
    "frac": "32 quarters of a GPU a node",
    "topology": "20 gangs, each in one rack",
    "reclaim": "half the cluster changes hands",
    "consolidate": "four nodes to be emptied",
    "backlog, all different": "1,000 gangs that can't start",
    "mixed, 4 jobs a node": "300 shapes, 85 % full, contended",
    "dra": "a device claim for every pod",
    "affinity": "gangs drawn together",
    "antiaff": "gangs kept apart",
}
_COLUMNS: Final = 4
_LEFT, _TOP, _RIGHT, _BOTTOM = 58, 78, 16, 50
_PANEL_WIDTH, _PANEL_HEIGHT, _GAP_X, _GAP_Y = 208, 150, 24, 62
_FIRST_NODES, _LAST_NODES = 80.0, 6_000.0
_NODE_TICKS: Final = {100: "100", 500: "500", 1000: "1,000", 5000: "5,000"}
#: Milliseconds.
_LOWEST, _HIGHEST = 5.0, 300_000.0
_COST_TICKS: Final = {10.0: "10 ms", 100.0: "100 ms", 1e3: "1 s", 10e3: "10 s", 100e3: "100 s"}
_STYLE: Final = """
text { fill: #24292f; font-family: Helvetica, Arial, sans-serif; font-size: 12px }
.ground { fill: #ffffff } .grid { stroke: #d8dee4; stroke-width: 1; fill: none }
.quiet { fill: #57606a; font-size: 11px }
.ratio { stroke: #ffffff; stroke-width: 4; paint-order: stroke; stroke-linejoin: round }
.name { font-weight: bold; font-size: 13px } .title { font-weight: bold; font-size: 17px }
.ours, .go { fill: none; stroke-width: 2 } .ours { stroke: #0072b2 } .go { stroke: #c2410c }
.ours-point { fill: #0072b2 } .go-point { fill: #c2410c }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .ground { fill: #0d1117 } .ratio { stroke: #0d1117 }
  .grid { stroke: #30363d } .quiet { fill: #9198a1 }
  .ours { stroke: #58a6ff } .go { stroke: #f0883e } .ours-point { fill: #58a6ff } .go-point { fill: #f0883e }
}
"""

Points = Sequence[tuple[int, float]]  #: nodes, milliseconds


@dataclass(frozen=True)
class _Frame:
    """Where a panel is, and where sizes and costs are in it."""

    left: float
    top: float

    def x(self, nodes: float) -> float:
        return self.left + _PANEL_WIDTH * math.log(nodes / _FIRST_NODES) / math.log(_LAST_NODES / _FIRST_NODES)

    def y(self, cost_ms: float) -> float:
        part = math.log(cost_ms / _LOWEST) / math.log(_HIGHEST / _LOWEST)
        return self.top + _PANEL_HEIGHT * (1 - min(max(part, 0.0), 1.0))


def draw(rows: Iterable[Figures], caption: str) -> str:
    """The chart of what `cycle` measured. Figures of Go that were only estimated aren't drawn."""
    listed = list(rows)
    panels = {name: [row for row in listed if row["workload"] == name] for name in PANELS}
    panels = {name: found for name, found in panels.items() if found}
    lines = math.ceil(len(panels) / _COLUMNS)
    width = _LEFT + _COLUMNS * _PANEL_WIDTH + (_COLUMNS - 1) * _GAP_X + _RIGHT
    height = _TOP + lines * _PANEL_HEIGHT + (lines - 1) * _GAP_Y + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img">',
        "<title>CPU time of one scheduling cycle by number of nodes: Bosket and the Go scheduler</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="6"/>',
        '<text class="title" x="16" y="28">CPU time of one scheduling cycle by number of nodes</text>',
        *_legend(width),
    ]
    for place, (name, found) in enumerate(panels.items()):
        line, column = divmod(place, _COLUMNS)
        frame = _Frame(_LEFT + column * (_PANEL_WIDTH + _GAP_X), _TOP + line * (_PANEL_HEIGHT + _GAP_Y))
        parts += _panel(frame, name, found, with_costs=column == 0)
    explained = "×: times less CPU, at the largest size that the Go scheduler was measured at"
    parts.append(f'<text class="quiet" x="16" y="{height - 10}">{explained}</text>')
    parts.append(
        f'<text class="quiet" x="{width - _RIGHT}" y="{height - 10}" text-anchor="end">{escape(caption)}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _legend(width: float) -> Iterator[str]:
    for x, name, style in ((width - 292, "Bosket", "ours"), (width - 196, "the Go scheduler (KAI)", "go")):
        yield f'<path class="{style}" d="M{x},23h26"/><circle class="{style}-point" cx="{x + 13}" cy="23" r="3.2"/>'
        yield f'<text x="{x + 33}" y="27">{name}</text>'


def _panel(frame: _Frame, name: str, rows: Sequence[Figures], *, with_costs: bool) -> Iterator[str]:
    left, top, right, bottom = frame.left, frame.top, frame.left + _PANEL_WIDTH, frame.top + _PANEL_HEIGHT
    yield f'<text class="name" x="{left}" y="{top - 22}">{escape(name.partition(",")[0])}</text>'
    yield f'<text class="quiet" x="{left}" y="{top - 7}">{escape(PANELS[name])}</text>'
    for cost_ms, label in _COST_TICKS.items():
        y = _number(frame.y(cost_ms))
        yield f'<path class="grid" d="M{left},{y}H{right}"/>'
        if with_costs:
            yield f'<text class="quiet" x="{left - 6}" y="{y}" dy="4" text-anchor="end">{label}</text>'
    for nodes, label in _NODE_TICKS.items():
        x = _number(frame.x(nodes))
        yield f'<path class="grid" d="M{x},{top}V{bottom}"/>'
        yield f'<text class="quiet" x="{x}" y="{bottom + 15}" text-anchor="middle">{label}</text>'
    ours = sorted((row["nodes"], row["total_ms"]) for row in rows)
    go = sorted((row["nodes"], row["go_ms"]) for row in rows if is_measured(row))
    yield from _curve(frame, "go", go)
    yield from _curve(frame, "ours", ours)
    if go:
        nodes = go[-1][0]
        ratio = go[-1][1] / dict(ours)[nodes]
        x = _number(frame.x(nodes) + 6)
        y = _number((frame.y(go[-1][1]) + frame.y(dict(ours)[nodes])) / 2)  # between the two curves
        yield f'<text class="ratio" x="{x}" y="{y}" dy="4">{_times(ratio)}</text>'


def is_measured(row: Figures) -> bool:
    """Whether Go was measured at this size."""
    return row.get("go_ms") is not None and not row["go_text"].startswith("~")


def _curve(frame: _Frame, style: str, points: Points) -> Iterator[str]:
    places = [(_number(frame.x(nodes)), _number(frame.y(cost_ms))) for nodes, cost_ms in points]
    if len(places) > 1:
        yield f'<path class="{style}" d="M{" L".join(f"{x},{y}" for x, y in places)}"/>'
    for x, y in places:
        yield f'<circle class="{style}-point" cx="{x}" cy="{y}" r="3.2"/>'


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
