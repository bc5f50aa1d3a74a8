"""Fields that a built-in kind doesn't have: dropped from an object, and named.

Called for every write, so what there is to look at in a Struct is worked out once.
"""

from __future__ import annotations

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
