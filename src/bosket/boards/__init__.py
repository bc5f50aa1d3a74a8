"""Grafana boards: what operators and the owners of queues look at, as data. `python -m bosket.boards DIR` writes them.

`panel` is the language they are written in, `operations` and `fairness` are the boards.
"""

from bosket.boards.fairness import FAIRNESS
from bosket.boards.operations import OPERATIONS

BOARDS = {"bosket-operations.json": OPERATIONS, "bosket-fairness.json": FAIRNESS}

__all__ = ["BOARDS", "FAIRNESS", "OPERATIONS"]
