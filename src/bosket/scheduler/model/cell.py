"""Cells: single values of an array, read and written in place.

Indexing a numpy array by integers creates a numpy scalar each time. A memoryview of the same memory returns plain
floats, several times faster. Rows and columns are still processed through the array.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Index_contra = TypeVar("Index_contra", contravariant=True)


class Cells(Protocol[Index_contra]):
    """Values by index: a number, or one number per dimension."""

    def __getitem__(self, index: Index_contra, /) -> float: ...

    def __setitem__(self, index: Index_contra, value: float, /) -> None: ...


def cells(array: NDArray[np.float64] | NDArray[np.bool_]) -> Cells[Any]:
    """A view of a contiguous array's memory."""
    whole: Any = array  # its own type does not say that it is a buffer
    return cast("Cells[Any]", memoryview(whole))
