"""Server-side apply: merges the applied fields into an object, and removes fields that are no longer applied."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.apply.fieldset import FieldSet, Finder, is_keyed, is_map, step_of
from bosket.apiserver.apply.shape import Shape


def merged(live: Any, applied: Any, shape: Shape) -> Any:
    """`live` with everything that `applied` says. Changes neither; shares with both."""
    if is_map(applied, shape) and isinstance(live, dict):
        result = dict(live)
        for key, value in applied.items():
            result[key] = merged(live[key], value, shape.field(key)) if key in live else value
        return result
    if is_keyed(applied, shape) and isinstance(live, list):
        return _merged_list(live, applied, shape)
    return applied


def _merged_list(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """The applied elements in order; elements of other managers stay behind the element that they followed."""
    old = {step_of(each, shape): each for each in live}
    new = {step_of(each, shape): each for each in applied}
    # By the step of an element: the element of another manager right behind it; by "", the first element of the list.
    followers: dict[str, str] = {}
    previous = ""
    for step in old:
        if step not in new:
            followers[previous] = step
        previous = step
    result: list[Any] = []
    for step in ("", *new):
        if step:
            each = new[step]
            result.append(merged(old[step], each, shape.element()) if step in old else each)
        while (follower := followers.get(step)) is not None:
            result.append(old[follower])
            step = follower  # noqa: PLW2901 - on along the chain
    return result


#: Places as a tree: by step, what is to be removed below it; None: the place itself.
_Tree = dict[str, "_Tree | None"]


def remove(document: Any, places: FieldSet) -> Any:
    """`document` without `places`; maps and lists that become empty thereby go, too. Changes its argument."""
    tree: _Tree = {}
    for place in sorted(places, key=len):  # what is removed as a whole first: what is below it is gone with it
        node = tree
        for step in place[:-1]:
            below = node.setdefault(step, {})
            if below is None:
                break
            node = below
        else:
            node.setdefault(place[-1], None)
    _remove(document, tree)
    return document


def _remove(value: Any, tree: _Tree) -> bool:
    """Take places out; whether `value` is empty now."""
    if isinstance(value, dict):
        for step, below in tree.items():
            name = step[2:]
            if step[0] == "f" and name in value and (below is None or _remove(value[name], below)):
                del value[name]
    elif isinstance(value, list):
        finder = Finder()
        found = [(finder.find_element(value, step), below) for step, below in tree.items() if step[0] != "f"]
        gone = {at for at, below in found if at is not None and (below is None or _remove(value[at], below))}
        if gone:
            value[:] = [each for index, each in enumerate(value) if index not in gone]
    return not value if isinstance(value, dict | list) else False
