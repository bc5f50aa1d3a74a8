"""The chart is an SVG that any browser shows, with a line for every queue in both panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from bosket.tools.simulate.chart import Series, draw, ticks

SVG = "{http://www.w3.org/2000/svg}"


def drawn(queues: dict[str, Series], **options: Any) -> ElementTree.Element:
    defaults: dict[str, Any] = {"title": "t", "gpus": 8, "window": 3}
    return ElementTree.fromstring(draw(queues, **(defaults | options)))


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def test_every_queue_has_its_colour_a_name_and_three_lines() -> None:
    root = drawn({"a<b": Series([8, 8, 0, 0], [4, 4, 2, 2]), "c": Series([0, 0, 8, 8], [4, 4, 6, 6])}, title="x & y")
    assert texts(root)[0] == "x & y"
    assert {"a<b", "c", "cycle"} <= set(texts(root))
    colours = [path.get("stroke") for path in root.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert colours.count("#0072b2") == colours.count("#d55e00") == 4  # and the mark in the legend


def test_lines_stay_on_the_paper() -> None:
    root = drawn({"a": Series([8.0] * 5000, [20.0] * 5000)})
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", 0)) <= width
        assert 0 <= float(text.get("y", 0)) <= height
    assert len(ElementTree.tostring(root)) < 10_000  # what doesn't change is one stroke


def test_an_empty_simulation_is_an_empty_chart() -> None:
    assert "cycle" in texts(drawn({}))


def test_many_queues_have_a_legend_of_many_rows() -> None:
    root = drawn({f"a-queue-with-a-long-name-{number}": Series([1], [1]) for number in range(30)})
    rows = {text.get("y") for text in root.iter(f"{SVG}text") if (text.text or "").startswith("a-queue")}
    assert len(rows) > 4


@pytest.mark.parametrize(
    ("highest", "about", "expected"),
    [
        (16, 6, [0, 5, 10, 15]),
        (1000, 10, list(range(0, 1001, 100))),
        (1, 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (3, 10, [0, 0.5, 1, 1.5, 2, 2.5, 3]),
    ],
)
def test_ticks_are_round_numbers(highest: int, about: int, expected: Sequence[float]) -> None:
    assert ticks(highest, about) == expected
