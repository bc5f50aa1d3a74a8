"""Sparse counts by index: pods with a match key by node, or by domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows

#: Up to so many numbers other than 0 are kept one by one.
FEW = 32


class Counts:
    """Numbers by index. Few are kept one by one, more of them in an array.

    A gang that selects its own pods has match keys of its own, on as many nodes as it has pods. Arrays over all nodes
    for each of thousands of such gangs would take far more time and memory than everything else of a cycle.
    """

    __slots__ = ("_array", "_array_at", "_few", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._few: dict[int, int] = {}  # those other than 0, while there is no array
        self._array: NDArray[np.int64] | None = None
        self._array_at: memoryview[int] | None = None  # the same memory: single numbers are far cheaper

    def __len__(self) -> int:
        """How many numbers aren't 0."""
        return len(self._few) if self._array is None else int(np.count_nonzero(self._array))

    def __getitem__(self, index: int) -> int:
        return self._few.get(index, 0) if self._array_at is None else self._array_at[index]

    def add(self, index: int, change: int) -> int:
        """Changes a number; returns what it was."""
        array = self._array_at
        if array is not None:
            before = array[index]
            array[index] = before + change
            return before
        before = self._few.get(index, 0)
        if before + change:
            self._few[index] = before + change
            if len(self._few) > FEW:
                self._array = self._all()
                self._array_at = memoryview(self._array)  # type: ignore[arg-type]
        else:
            self._few.pop(index, None)
        return before

    def at(self, indexes: Rows) -> NDArray[np.int64]:
        """The numbers at these indexes; not to be written to."""
        return (self._all() if self._array is None else self._array)[indexes]

    def indexes(self) -> NDArray[np.intp]:
        """Where the number isn't 0."""
        return self._few_indexes() if self._array is None else np.flatnonzero(self._array)

    def _few_indexes(self) -> NDArray[np.intp]:
        return np.fromiter(self._few, np.intp, len(self._few))

    def _all(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.zeros(self._size, dtype=np.int64)
        if self._few:
            found[self._few_indexes()] = np.fromiter(self._few.values(), np.int64, len(self._few))
        return found
