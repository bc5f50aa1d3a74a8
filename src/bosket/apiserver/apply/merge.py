"""An object after somebody applied something: what was said is put in, what is no longer said is taken out."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.apply.fieldset import FieldSet, Place, find_element, is_keyed, is_map, step_of
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
    """The applied elements in their order; those of others stay behind the element that they stood behind."""
    old = {step_of(each, shape): each for each in live}
    new = {step_of(each, shape): each for each in applied}
    result: list[tuple[str, Any]] = [
        (step, merged(old[step], each, shape.element()) if step in old else each) for step, each in new.items()
    ]
    previous: str | None = None
    for step, each in old.items():
        if step not in new:
            at = 0 if previous is None else 1 + next(i for i, (known, _) in enumerate(result) if known == previous)
            result.insert(at, (step, each))
        previous = step
    return [each for _, each in result]


def remove(document: Any, places: FieldSet) -> Any:
    """`document` without `places`; maps and lists that become empty thereby go, too. Changes its argument."""
    for place in sorted(places, key=len):  # an element before the fields by which it is found
        _remove(document, place)
    return document


def _remove(value: Any, place: Place) -> bool:
    """Take one place out; whether `value` is empty now."""
    step, rest = place[0], place[1:]
    if isinstance(value, dict) and step[0] == "f":
        name = step[2:]
        if name in value and (not rest or _remove(value[name], rest)):
            del value[name]
    elif isinstance(value, list) and step[0] != "f":
        index = find_element(value, step)
        if index is not None and (not rest or _remove(value[index], rest)):
            del value[index]
    return not value if isinstance(value, dict | list) else False
