"""A value that may be None by its type, where a test knows that there is one."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value; the test fails here, and not in what it does with it, if there is none."""
    assert value is not None
    return value
