"""From field errors to a verdict, worded as Grove's webhooks word it: clients and scripts read these sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bosket.api.field_error import FieldError, duplicate
from bosket.runtime.webhook.verdict import Refusal, Verdict


def verdict_of(errors: Iterable[FieldError], warnings: Sequence[str] = ()) -> Verdict:
    """Each error and each warning once; several errors in brackets."""
    found = {str(error): error for error in errors}
    words = next(iter(found), "") if len(found) < 2 else f"[{', '.join(found)}]"
    refusals = tuple(Refusal(error.field, error.message) for error in found.values())
    return Verdict(refusals, tuple(dict.fromkeys(warnings)), words=words)


def duplicates(names: Iterable[str]) -> list[str]:
    """What is there more than once, each once, in the order of the first time."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def duplicate_error(field: str, names: Iterable[str]) -> list[FieldError]:
    """That some names are there more than once, if they are."""
    found = duplicates(names)
    return [duplicate(field, found)] if found else []
