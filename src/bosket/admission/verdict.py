"""What admission says about an object: refusals, warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from bosket.api.object import KubeObject

_SHOWN_CHARACTERS: Final = 60


class Refusal(NamedTuple):
    """One thing that is wrong: where, and a sentence that says what it is and what would be right."""

    field: str
    message: str


class Verdict(NamedTuple):
    """An object is admitted if nothing is refused; its user is told the warnings either way."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


def annotation_field(key: str) -> str:
    """The path of an annotation."""
    return f"metadata.annotations[{key}]"


def quoted(text: str) -> str:
    """A user's text as it stands in a sentence: in quotes, and not at any length."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return json.dumps(shown, ensure_ascii=False)


def sentence(refusals: Iterable[Refusal]) -> str:
    """All refusals in a line, each once."""
    return "; ".join(dict.fromkeys(each.message for each in refusals))


def name_of(kind: str, obj: KubeObject) -> str:
    """What messages call an object that may have no name yet."""
    meta = obj.metadata
    name = meta.name or (f"{meta.generateName}*" if meta.generateName else "without a name")
    return f"{kind} {meta.namespace}/{name}" if meta.namespace else f"{kind} {name}"
