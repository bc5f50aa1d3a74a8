"""Boards, rows and panels, and the JSON that Grafana imports. Pure.

A query is PromQL with the board's variables in it (`$queue`) and `$__rate_interval`, which Grafana fills in. Its legend
names labels: `{{action}}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

#: Units by Grafana's names.
Unit = Literal["ms", "s", "short", "ops", "reqps", "bytes", "percentunit", "decgbytes"]

_COLUMNS: Final = 24
_WIDTH: Final = 8
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One set of lines."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of lines over time."""

    title: str
    unit: Unit
    queries: tuple[Query, ...]
    #: What a reader should know: what is good, what is not, what to do.
    text: str = ""
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader chooses; the values of a label."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Board:
    """What Grafana calls a dashboard."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()

    def queries(self) -> list[str]:
        """All PromQL of the board."""
        return [query.expression for row in self.rows for panel in row.panels for query in panel.queries]


def as_json(board: Board) -> str:
    """As Grafana imports it."""
    document = {
        "uid": board.uid,
        "title": board.title,
        "description": board.text,
        "tags": ["bosket", "kai-scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_data_source(), *map(_variable, board.variables)]},
        "panels": _panels(board.rows),
    }
    return f"{json.dumps(document, indent=2)}\n"


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({variable.metric}, {variable.label})", "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """All of them, row by row, three side by side."""
    result: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        result.append({"id": len(result) + 1, "type": "row", "title": row.title, "gridPos": place, "panels": []})
        y += 1
        for index, panel in enumerate(row.panels):
            x = index * _WIDTH % _COLUMNS
            if index and x == 0:
                y += _HEIGHT
            place = {"h": _HEIGHT, "w": _WIDTH, "x": x, "y": y}
            result.append({"id": len(result) + 1, "gridPos": place, **_chart(panel)})
        y += _HEIGHT
    return result


def _chart(panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if panel.stacked:
        custom |= {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": None, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": each.expression,
                "legendFormat": each.legend,
            }
            for index, each in enumerate(panel.queries)
        ],
    }
