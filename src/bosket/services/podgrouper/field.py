"""Reads fields of objects whose kinds have no Struct here: owners of many kinds, in the versions that clusters have.

What is absent is None; what has another type than its kind says is an error that names the object and the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from bosket.services.podgrouper.owner import GroupingError, Owner

Json = Mapping[str, Any]
T = TypeVar("T")

LARGEST_COUNT: Final = 2**31 - 1
_SHOWN: Final = 80
#: No longer than any number that counts here: what somebody writes into an annotation may be of any length.
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)


class Part:
    """A part of an owner's content that knows where it is: errors name the owner and the path."""

    __slots__ = ("_content", "_owner", "_path")

    def __init__(self, owner: Owner, content: Json | None = None, path: str = "") -> None:
        self._owner = owner
        self._content = owner.content if content is None else content
        self._path = path

    @property
    def content(self) -> Json:
        """The part as it is on the wire."""
        return self._content

    def number(self, *path: str) -> int | None:
        """A whole number."""
        value = self._find(path)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"is {value!r}, not a whole number", *path)
        return value

    def count(self, *path: str) -> int | None:
        """A number that counts something: 0 or more."""
        value = self.number(*path)
        if value is not None and not 0 <= value <= LARGEST_COUNT:
            raise self.error(f"is {value}; it must be a whole number from 0 to {LARGEST_COUNT}", *path)
        return value

    def text(self, *path: str) -> str | None:
        return self._of_type(str, "text", path)

    def flag(self, *path: str) -> bool | None:
        return self._of_type(bool, "true or false", path)

    def part(self, *path: str) -> Part | None:
        """What is below a field, as a part of its own."""
        value: Json | None = self._of_type(dict, "an object", path)
        return Part(self._owner, value, self.path(*path)) if value is not None else None

    def parts(self, *path: str) -> tuple[Part, ...] | None:
        """The objects of a list."""
        values: list[Any] | None = self._of_type(list, "a list", path)
        if values is None:
            return None
        for index, value in enumerate(values):
            if not isinstance(value, dict):
                raise self.error(f"is {value!r}, not an object", *path[:-1], f"{path[-1]}[{index}]")
        return tuple(
            Part(self._owner, value, self.path(*path[:-1], f"{path[-1]}[{index}]"))
            for index, value in enumerate(values)
        )

    def within(self, content: Any, *path: str) -> Part:
        """An object below this part that the caller found: in a list of lists, for example."""
        if not isinstance(content, dict):
            raise self.error(f"is {content!r}, not an object", *path)
        return Part(self._owner, content, self.path(*path))

    def texts(self, *path: str) -> tuple[str, ...] | None:
        """The entries of a list of words."""
        values: list[Any] | None = self._of_type(list, "a list", path)
        if values is not None and not all(isinstance(value, str) for value in values):
            raise self.error(f"is {values!r}, not a list of names", *path)
        return tuple(values) if values is not None else None

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def path(self, *path: str) -> str:
        """Where a field is, for messages."""
        return ".".join((self._path, *path) if self._path else path)

    def error(self, what: str, *path: str) -> GroupingError:
        """The error that says what is wrong with a field: "<owner>: <path> <what>"."""
        return GroupingError(f"{self._owner}: {self.path(*path)} {what}")

    def _of_type(self, kind: type[T], name: str, path: tuple[str, ...]) -> T | None:
        value = self._find(path)
        if value is not None and not isinstance(value, kind):
            raise self.error(f"is {value!r}, not {name}", *path)
        return value

    def _find(self, path: tuple[str, ...]) -> Any:
        value: Any = self._content
        for depth, name in enumerate(path):
            if not isinstance(value, dict):
                raise self.error(f"is {value!r}, not an object", *path[:depth])
            value = value.get(name)
            if value is None:
                return None
        return value


def whole_number(text: str) -> int | None:
    """The whole number that a text is; None when it is none, or larger than anything that is counted."""
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and abs(value) <= LARGEST_COUNT else None


def written_number(text: str, where: str) -> int:
    """A whole number in an annotation or a label; `where` says which, for the error."""
    value = whole_number(text)
    if value is None:
        raise GroupingError(f'{where} is "{text[:_SHOWN]}"; it must be a whole number')
    return value
