"""YAML bodies, within bounds: `decode_body` hands them here.

A few lines of YAML can mean gigabytes, by aliases of aliases, and a deep one exhausts the stack of a parser in C, which
ends the process. So the events are measured first, and nothing is built of a body that is out of bounds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bosket.apiserver.status import bad_request

#: How much larger than it is written a body may get by its aliases, in values and characters.
MAX_ALIASED: Final = 1_000_000


def decode_yaml(body: bytes, max_depth: int) -> Any:
    """The one document in `body`, as JSON would have it; raises a Status with code 400."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml.parse(body, Loader=loader), max_depth)
        value = yaml.load(body, Loader=loader)  # noqa: S506 - both are safe loaders
        return msgspec.json.decode(msgspec.json.encode(value))  # dates and the like become what JSON has
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError, RecursionError) as error:
        raise bad_request(f"the body is not valid YAML: {' '.join(str(error).split())}") from None


def _check_bounds(events: Any, max_depth: int) -> None:
    """Refuse what is nested too deeply, refers to itself, or grows too large when its aliases are written out."""
    from yaml import events as kind

    open_sizes = [0]  # of the collections that we are in, outermost first; the stream itself is the first
    open_anchors: list[str | None] = [None]
    sizes: dict[str | None, int] = {}  # of what is anchored, once it is complete
    aliased = 0
    for event in events:
        if isinstance(event, kind.CollectionStartEvent):
            if len(open_sizes) > max_depth:
                raise bad_request(f"the body is nested more than {max_depth} levels deep")
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
                raise bad_request(f"the body is not valid YAML: *{event.anchor} is within what it stands for")
            size, anchor = sizes.get(event.anchor, 0), None  # an anchor that isn't there is the loader's to refuse
            aliased += size
        else:
            continue
        if aliased > MAX_ALIASED:
            raise bad_request(f"the aliases in the body stand for more than {MAX_ALIASED} values and characters")
        if anchor is not None:
            sizes[anchor] = size
        open_sizes[-1] += size
