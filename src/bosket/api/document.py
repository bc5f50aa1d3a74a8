"""JSON and YAML that somebody else wrote, read within bounds: files of the command line, bodies of requests.

A few lines of YAML can mean gigabytes, by aliases of aliases, and a deep document exhausts the stack of a parser in C,
which ends the process. So the events of YAML are measured first, and nothing is built of what is out of bounds.
Whatever is wrong with a document is an `UnreadableDocument`, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

#: As deep as kube-apiserver takes objects, and more than any file needs.
MAX_DEPTH: Final = 100
#: How much larger than it is written a document may get by its aliases, in values and characters.
MAX_ALIASED: Final = 1_000_000


class UnreadableDocument(ValueError):
    """A document that can't be read, and why, in one line."""


@overload
def read_json(data: bytes) -> Any: ...
@overload
def read_json(data: bytes, kind: type[T]) -> T: ...
def read_json(data: bytes, kind: Any = Any) -> Any:
    """The JSON value, of a type that msgspec knows. Objects that are of another type raise msgspec.ValidationError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        if kind is not Any:
            raise
        raise UnreadableDocument(f"not a JSON document: {error}") from None  # a number of too many digits
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableDocument(f"not a JSON document: {error}") from None
    except RecursionError:
        raise UnreadableDocument("it is nested too deeply") from None


def read_yaml(text: str | bytes, max_depth: int = MAX_DEPTH, loader: Any = None, max_events: float = math.inf) -> Any:
    """The one document in a text; None where there is none. `max_events`: values, beginnings and ends of
    collections."""
    documents = read_yaml_documents(text, max_depth, loader, max_events)
    if len(documents) > 1:
        raise UnreadableDocument(f"{len(documents)} documents, one is expected")
    return documents[0] if documents else None


def read_yaml_documents(
    text: str | bytes, max_depth: int = MAX_DEPTH, loader: Any = None, max_events: float = math.inf
) -> list[Any]:
    """All documents in a text. `loader`: another of PyYAML's safe ones, such as one that leaves times alone."""
    import yaml

    fastest = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml.parse(text, Loader=fastest), max_depth, max_events)
        return list(yaml.load_all(text, Loader=loader or fastest))  # all of them are safe
    except UnreadableDocument:
        raise
    # Beside its own, the library lets through what Python says of a date that isn't one, a number of thousands of
    # digits, a text that is no UTF-8, an anchor within itself.
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise UnreadableDocument(f"not a YAML document: {' '.join(str(error).split())[:300]}") from None


def _check_bounds(events: Iterable[Any], max_depth: int, max_events: float) -> None:
    """Refuse what is nested too deeply, refers to itself, or grows too large when its aliases are written out."""
    from yaml import events as kind

    open_sizes = [0]  # of the collections that we are in, outermost first; the stream itself is the first
    open_anchors: list[str | None] = [None]
    sizes: dict[str | None, int] = {}  # of what is anchored, once it is complete
    aliased = 0
    for count, event in enumerate(events):
        if count > max_events:
            raise UnreadableDocument(f"it has more than {max_events} parts; write it as JSON")
        if isinstance(event, kind.CollectionStartEvent):
            if len(open_sizes) > max_depth:
                raise UnreadableDocument(f"it is nested more than {max_depth} levels deep")
            open_sizes.append(1)
            open_anchors.append(event.anchor)
            sizes.pop(event.anchor, None)
            continue
        if isinstance(event, kind.CollectionEndEvent):
            size, anchor = open_sizes.pop(), open_anchors.pop()
        elif isinstance(event, kind.ScalarEvent):
            size, anchor = 1 + len(event.value), event.anchor
        elif isinstance(event, kind.AliasEvent):
            if event.anchor in open_anchors and event.anchor not in sizes:
                raise UnreadableDocument(f"not a YAML document: *{event.anchor} is within what it stands for")
            size, anchor = sizes.get(event.anchor, 0), None  # an anchor that isn't there is the loader's to refuse
            aliased += size
        else:
            continue
        if aliased > MAX_ALIASED:
            raise UnreadableDocument(f"its aliases stand for more than {MAX_ALIASED} values and characters")
        if anchor is not None:
            sizes[anchor] = size
        open_sizes[-1] += size
