"""An excerpt of an object that breaks its schema: of long lists and maps, only some of the elements that are wrong.

Used by `check` to report a few errors of an object that has hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from bosket.apiserver.custom.schema import Node

#: Lists and maps that are longer are shortened, to this many wrong elements.
LONG: Final = 200
_KEPT: Final = 50


class Validator(Protocol):
    """Says whether a value is right."""

    def is_valid(self, value: Any) -> bool: ...


class Excerpt:
    """Shortens one object, and remembers where the remaining elements were."""

    def __init__(self, validator_of: Callable[[Node], Validator]) -> None:
        """`validator_of` returns the validator of a single element, by the schema of the elements."""
        self._validator_of = validator_of
        #: by the steps to a shortened list, in the excerpt: the original indexes of its elements
        self._places: dict[tuple[str | int, ...], list[int]] = {}
        self.shortened = False

    def of(self, value: Any, node: Node, at: tuple[str | int, ...]) -> Any:
        """The excerpt of `value`, which is at these steps in the whole excerpt. Shares with it, and changes nothing."""
        if isinstance(value, dict):
            keys = list(value)
            if len(value) > LONG and node.additional is not None:
                self.shortened = True
                is_valid = self._validator_of(node.additional).is_valid
                wrong = [key for key in keys if key not in node.properties and not is_valid(value[key])][:_KEPT]
                keys = [*(key for key in keys if key in node.properties), *wrong]
            found = {}
            for key in keys:
                child = node.child(key)
                found[key] = value[key] if child is None else self.of(value[key], child, (*at, key))
            return found
        if isinstance(value, list) and node.items is not None:
            places = list(range(len(value)))
            if len(value) > LONG:
                self.shortened = True
                is_valid = self._validator_of(node.items).is_valid
                places = [place for place in places if not is_valid(value[place])][:_KEPT]
                self._places[at] = places
            items = node.items
            return [self.of(value[place], items, (*at, index)) for index, place in enumerate(places)]
        return value

    def original(self, steps: Sequence[str | int]) -> list[str | int]:
        """The steps in the whole object that steps in the excerpt stand for."""
        found: list[str | int] = []
        for depth, step in enumerate(steps):
            places = self._places.get(tuple(steps[:depth]))
            found.append(step if places is None or not isinstance(step, int) else places[step])
        return found
