"""Rules of explicit start orders: no unknown cliques, no cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bosket.api.field_error import FieldError, invalid_value, required
from bosket.api.grove import PodCliqueTemplateSpec
from bosket.grove.admission.wording import duplicate_error


def own_order_errors(clique: PodCliqueTemplateSpec, path: str) -> Iterator[FieldError]:
    """What is wrong with what one clique says; `path` leads to its spec."""
    field = f"{path}.startsAfter"
    for name in clique.spec.startsAfter:
        if not name.strip():
            yield required(field, "clique dependency must not be empty")
        if name == clique.name:
            yield invalid_value(field, name, "clique dependency cannot refer to itself")
    yield from duplicate_error(field, clique.spec.startsAfter)


def order_errors(cliques: Sequence[PodCliqueTemplateSpec], path: str) -> Iterator[FieldError]:
    """What is wrong with what all of them say together."""
    after = {clique.name: clique.spec.startsAfter for clique in cliques}
    unknown = [name for clique in cliques for name in clique.spec.startsAfter if name not in after]
    if unknown:
        yield invalid_value(
            f"{path}.startsAfter",
            ",".join(unknown),
            "unknown clique names found, all clique dependencies must be defined as cliques",
        )
    circles = _circles(after)
    if circles:
        yield invalid_value(path, circles, "clique must not have circular dependencies")


def _circles(after: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Cliques that all wait for each other: components of more than one, by Tarjan's algorithm, without recursion."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    found: list[list[str]] = []
    for start in after:
        if start in numbers:
            continue
        numbers[start] = lowest[start] = len(numbers)
        open_ones.append(start)
        path = [(start, iter(after[start]))]
        while path:
            name, remaining = path[-1]
            following = next(remaining, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[name])
                if lowest[name] == numbers[name]:
                    position = open_ones.index(name)
                    component = open_ones[position:][::-1]
                    del open_ones[position:]
                    if len(component) > 1:
                        found.append(component)
            elif following not in numbers:
                numbers[following] = lowest[following] = len(numbers)
                open_ones.append(following)
                path.append((following, iter(after.get(following, ()))))
            elif following in open_ones:
                lowest[name] = min(lowest[name], numbers[following])
    return found
