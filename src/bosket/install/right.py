"""What each account may do: the table `rights.txt`, which `python -m tests.install` makes from what the code calls.

A line of it: account, API group, resource, verbs, where, and the name of the one object that is meant, if it is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

#: Anywhere in the cluster; where the services live; where reservation pods, where scaling pods do.
Scope = Literal["cluster", "own", "reservation", "scale"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
#: How the table writes the group that has no name.
_CORE: Final = "core"
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


class Right(NamedTuple):
    """One verb on one resource (`pods`, `pods/binding`)."""

    group: str
    resource: str
    verb: str
    scope: Scope = "cluster"
    #: The only object that is meant; empty for any.
    name: str = ""


class InvalidTable(ValueError):
    """A line of the table that can't be understood."""


@cache
def read_rights() -> Mapping[str, frozenset[Right]]:
    """The rights of every account, by its name."""
    return MappingProxyType(parse_rights(files(__package__).joinpath("rights.txt").read_text()))


def owners_of_pods() -> list[tuple[str, str]]:
    """Group and plural of the kinds whose pods are grouped: those that the pod grouper reads one of at a time."""
    return sorted(
        (each.group, each.resource)
        for each in read_rights()["pod-grouper"]
        if each.verb == "get" and each.scope == "cluster" and each.resource not in ("podgroups", "podgangs")
    )


def parse_rights(text: str) -> dict[str, frozenset[Right]]:
    """A table's rights by account; raises `InvalidTable`, which names the line."""
    found: dict[str, set[Right]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        match line.split():
            case [account, group, resource, verbs, scope, *name] if scope in SCOPES and len(name) <= 1:
                own = found.setdefault(account, set())
                for verb in verbs.split(","):
                    own.add(Right("" if group == _CORE else group, resource, verb, scope, *name))
            case _:
                raise InvalidTable(f"line {number} is not: account group resource verbs scope [name]: {line}")
    return {account: frozenset(rights) for account, rights in found.items()}


def format_rights(rights: Mapping[str, frozenset[Right]]) -> str:
    """The table's lines, which `parse_rights` reads; equal rights give equal text."""
    rows = [
        (account, group or _CORE, resource, ",".join(verbs), scope, name)
        for account, own in sorted(rights.items())
        for (group, resource, scope, name), verbs in verbs_by_object(own).items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(6)] if rows else []
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def verbs_by_object(rights: Iterable[Right]) -> dict[tuple[str, str, Scope, str], list[str]]:
    """Verbs by what they are allowed on."""
    grouped: dict[tuple[str, str, Scope, str], list[str]] = {}
    for right in sorted(rights, key=lambda each: (each.group, each.resource, SCOPES.index(each.scope), each.name)):
        grouped.setdefault((right.group, right.resource, right.scope, right.name), []).append(right.verb)
    return {what: sorted(verbs, key=_VERBS.index) for what, verbs in grouped.items()}
