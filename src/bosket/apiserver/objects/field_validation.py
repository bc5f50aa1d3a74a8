"""Field validation of requests: unknown fields of built-in kinds are dropped and named, duplicate keys are named.

`drop_unknown` runs on every write of a built-in kind, so the layout of each Struct is worked out once (`_plans`).
`repeated_keys` parses the body a second time, and only for clients that ask for `fieldValidation`.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from msgspec import inspect

from bosket.apiserver.objects.types import struct_fields

Path = tuple[Any, ...]  # (path of the parent, key or index); empty at the top


class _Plan(NamedTuple):
    """What is below a field: a Struct, or a list or map of what `below` says."""

    form: Literal["struct", "list", "map"]
    struct: type | None = None
    below: _Plan | None = None


def drop_unknown(doc: dict[str, Any], struct: type) -> list[str]:
    """Take out what `struct` doesn't know; the paths of what was taken out."""
    found: list[Path] = []
    _visit_struct(doc, struct, (), found)
    return [_shown(path) for path in found]


_UNKNOWN: Any = object()


def _visit_struct(value: dict[str, Any], struct: type, path: Path, found: list[Path]) -> None:
    plans = _plans(struct)
    unknown = []
    for key, child in value.items():
        plan = plans.get(key, _UNKNOWN)
        if plan is None:
            continue
        if plan is _UNKNOWN:
            unknown.append(key)
        else:
            _visit(child, plan, (path, key), found)
    for key in unknown:
        del value[key]
        found.append((path, key))


def _visit(value: Any, plan: _Plan, path: Path, found: list[Path]) -> None:
    if plan.form == "struct":
        if type(value) is dict:
            assert plan.struct is not None
            _visit_struct(value, plan.struct, path, found)
        return
    assert plan.below is not None
    if plan.form == "list":
        if type(value) is list:
            for index, child in enumerate(value):
                _visit(child, plan.below, (path, index), found)
    elif type(value) is dict:
        for key, child in value.items():
            _visit(child, plan.below, (path, key), found)


@lru_cache(maxsize=4096)
def _plans(struct: type) -> dict[str, _Plan | None]:
    """By field: what is below it, None if nothing is that could have fields."""
    return {name: _plan(info) for name, info in struct_fields(struct).items()}


def _plan(info: inspect.Type) -> _Plan | None:
    if isinstance(info, inspect.Metadata):
        return _plan(info.type)
    if isinstance(info, inspect.UnionType):
        return next((plan for each in info.types if (plan := _plan(each)) is not None), None)
    if isinstance(info, inspect.StructType):
        return _Plan("struct", info.cls)
    if isinstance(info, inspect.DictType):
        below = _plan(info.value_type)
        return None if below is None else _Plan("map", below=below)
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        below = _plan(info.item_type)
        return None if below is None else _Plan("list", below=below)
    return None


def _shown(path: Path) -> str:
    parent, step = path
    before = _shown(parent) if parent else ""
    if isinstance(step, int):
        return f"{before}[{step}]"
    return f"{before}.{step}" if before else str(step)


class _Object(dict[str, Any]):
    """A JSON object that remembers its repeated keys."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) != len(pairs):
            self.repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def repeated_keys(body: bytes) -> list[str]:
    """The paths of all keys that are there more than once; the body is JSON that can be decoded."""
    found: list[str] = []
    _visit_repeated(json.loads(body, object_pairs_hook=_Object), "", found)
    return found


def _visit_repeated(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Object):
        found += [f"{path}.{key}" if path else key for key in value.repeated]
        for key, child in value.items():
            if isinstance(child, _Object | list):
                _visit_repeated(child, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, _Object | list):
                _visit_repeated(child, f"{path}[{index}]", found)
