"""Every extension point has a contract: when its extensions are called, and what they may assume."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from bosket.scheduler.framework import eviction_extension, extension
from bosket.scheduler.framework.extension_points import ExtensionPoints

EXTENSIONS = {name: get_args(hint)[0] for name, hint in get_type_hints(ExtensionPoints).items()}


def _contract(kind: type) -> str:
    """The docstrings of an extension and its methods, on one line."""
    parts = [kind.__doc__, *(each.__doc__ for each in vars(kind).values() if callable(each))]
    return " ".join(" ".join(part.split()) for part in parts if part)


def test_every_extension_point_says_what_it_takes() -> None:
    assert set(EXTENSIONS) == {each.name for each in fields(ExtensionPoints)}


@pytest.mark.parametrize("point", EXTENSIONS)
def test_a_contract_says_when_extensions_are_called_and_what_they_may_assume(point: str) -> None:
    contract = _contract(EXTENSIONS[point])
    assert "alled " in contract, contract
    assert "ay assume that" in contract or "ay assume nothing" in contract, contract


def test_the_rules_for_all_extensions_say_what_an_exception_does() -> None:
    assert extension.__doc__ is not None
    assert "An exception ends the cycle" in " ".join(extension.__doc__.split())
    assert eviction_extension.__doc__ is not None
    assert "stand in `extension`" in " ".join(eviction_extension.__doc__.split())
