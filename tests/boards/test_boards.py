"""The boards are well-formed, up to date in the repository, and ask for nothing that isn't exported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bosket.install.boards import BOARDS
from bosket.install.boards.panel import Board, as_json
from tests.boards.exported import exported, registry

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
METRIC = re.compile(r"\b(?:kai|bosket|controller_runtime|workqueue|rest_client|process|leader_election)_\w+")


def test_the_files_are_what_the_boards_say() -> None:
    """Otherwise: python -m bosket.install.boards deploy/grafana."""
    assert {file.name: file.read_text() for file in FOLDER.glob("*.json")} == {
        name: as_json(board) for name, board in BOARDS.items()
    }


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_metric_of_a_board_is_exported(board: Board) -> None:
    known = set(exported(registry()))
    asked = {metric for query in board.queries() for metric in METRIC.findall(query)}
    asked |= {variable.metric for variable in board.variables}
    unknown = {each for each in asked if each not in known and each.removesuffix("_bucket") not in known}
    assert asked
    assert unknown == set()


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_panels_have_places_of_their_own(board: Board) -> None:
    panels = json.loads(as_json(board))["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for each in panels:
        place = each["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, each["title"]
        taken |= cells
        assert len({target["refId"] for target in each.get("targets", ())}) == len(each.get("targets", ()))
