"""The table of messages (`messages.txt`): which number is which field, of which type. Read when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

#: Where kinds are found that every API version has, such as DeleteOptions.
META: Final = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    #: in JSON; empty where the fields of this message stand among its parent's
    name: str
    #: plain, one of the special forms, or the name of a message
    type: str
    #: of the message, if it is one
    api_version: str
    is_list: bool
    is_map: bool
    #: an empty value is no value in JSON
    omit_empty: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One kind of message."""

    name: str
    fields: dict[int, Field]
    #: it has one field, a list, and is that list in JSON
    is_bare_list: bool


def find_message(api_version: str, name: str) -> Message | None:
    """A message by its API version and name."""
    line = _lines().get((api_version, name))
    return None if line is None else _parse(api_version, name, line)


@lru_cache(maxsize=1)
def _lines() -> dict[tuple[str, str], str]:
    text = files(__package__).joinpath("messages.txt").read_text()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            api_version, name, *rest = line.split(" ", 2)
            found[api_version, name] = rest[0] if rest else ""
    return found


@lru_cache(maxsize=2048)
def _parse(api_version: str, name: str, line: str) -> Message:
    fields = {}
    bare = False
    for part in line.split():
        field, _, described = part.partition("=")
        number, _, kind = described.partition(":")
        bare = bare or field == "[]"
        is_list, is_map, omit_empty = bare or kind.startswith("*"), kind.startswith("%"), kind.endswith("!")
        home, _, message = kind.strip("*%!").rpartition(",")
        fields[int(number)] = Field(field, message, home or api_version, is_list, is_map, omit_empty)
    return Message(name, fields, bare)
