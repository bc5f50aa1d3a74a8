"""Writes the boards into a folder: `python -m bosket.install.boards deploy/grafana`."""

from __future__ import annotations

import sys
from pathlib import Path

from bosket.install.boards import BOARDS
from bosket.install.boards.panel import as_json


def main(folder: Path) -> None:
    """Each into a file of its own."""
    for name, board in BOARDS.items():
        (folder / name).write_text(as_json(board))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
