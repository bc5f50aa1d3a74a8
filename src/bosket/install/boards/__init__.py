"""Grafana boards for operators and the owners of queues, as data.

`python -m bosket.install.boards DIR` writes them.

`panel` is the language they are written in, `operations` and `fairness` are the boards.
"""

from bosket.install.boards.fairness import FAIRNESS
from bosket.install.boards.operations import OPERATIONS

BOARDS = {"bosket-operations.json": OPERATIONS, "bosket-fairness.json": FAIRNESS}

__all__ = ["BOARDS", "FAIRNESS", "OPERATIONS"]
