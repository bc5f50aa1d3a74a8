"""What admission says about an object: refusals, warnings, changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from bosket.kube.patch import Operation

_SHOWN_CHARACTERS: Final = 60


class Refusal(NamedTuple):
    """One thing that is wrong: where, and a sentence that says what it is and what would be right."""

    field: str
    message: str


class Verdict(NamedTuple):
    """The answer to a review. No refusals: the object is admitted. Warnings are sent either way."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    #: JSON patch that completes the object.
    patch: tuple[Operation, ...] = ()
    #: What a refusal says as a whole, where others have agreed on the words; by default the object and its refusals.
    words: str = ""


ADMITTED: Final = Verdict()


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
