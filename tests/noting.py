"""A function that is watched: it does what it did, and notes how it was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


def noting(calls: list[Any], real: Callable[..., R], note: Callable[..., object]) -> Callable[..., R]:
    """`real`; at each call, what `note` makes of the arguments is appended to `calls`."""

    def watched(*arguments: Any, **options: Any) -> R:
        calls.append(note(*arguments, **options))
        return real(*arguments, **options)

    return watched
