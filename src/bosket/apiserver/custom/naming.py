"""Names of definitions: no two kinds of a group share one.

`Definitions` asks when a definition is written, and `NamingController` again when a name may have become free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bosket.apiserver.objects.status_condition import find_condition, set_condition
from bosket.apiserver.store.entry import Doc

Names = dict[str, Any]
#: Reasons of refusals, by the name that was refused.
_REASONS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}
_KINDS = ("kind", "listKind")


def settle_names(doc: Doc, others: Iterable[Names], now: str) -> None:
    """Write into a definition's status which of its names are accepted, and whether it is established.

    `others` are the names that other kinds of its group have.
    """
    wanted, status = doc["spec"]["names"], doc["status"]
    accepted = accepted_names(doc)
    taken = {False: set[str](), True: set[str]()}
    for names in others:
        for key in _REASONS:
            taken[key in _KINDS].update(_listed(names.get(key)))
    problem: tuple[str, str] | None = None
    for key, reason in _REASONS.items():
        known = set(_listed(accepted.get(key)))
        refused = [name for name in _listed(wanted.get(key)) if name not in known and name in taken[key in _KINDS]]
        if refused:
            listed = ", ".join(f'"{name}" is already in use' for name in refused)
            problem = reason, listed if len(refused) == 1 else f"[{listed}]"
        elif wanted.get(key):
            accepted[key] = wanted[key]
        else:
            accepted.pop(key, None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    status["acceptedNames"] = {"plural": "", "kind": "", **accepted}
    status["conditions"] = status.get("conditions") or []
    _set_conditions(doc, problem, now)


def _listed(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _set_conditions(doc: Doc, problem: tuple[str, str] | None, now: str) -> None:
    conditions = doc["status"]["conditions"]
    reason, message = problem or ("NoConflicts", "no conflicts found")
    names = {"type": "NamesAccepted", "status": "False" if problem else "True", "reason": reason, "message": message}
    set_condition(conditions, names, now)
    if is_established(doc):
        return  # what is served once stays served
    established = {
        "type": "Established",
        "status": "False" if problem else "True",
        "reason": "NotAccepted" if problem else "InitialNamesAccepted",
        "message": "not all names are accepted" if problem else "the initial names have been accepted",
    }
    set_condition(conditions, established, now)


def accepted_names(doc: Doc) -> Names:
    """The names that a definition has been given."""
    names = (doc.get("status") or {}).get("acceptedNames") or {}
    return {key: value for key, value in names.items() if value}


def is_established(doc: Doc) -> bool:
    """Whether the kind is served."""
    return _status_of(doc, "Established") == "True"


def is_settled(doc: Doc) -> bool:
    """Whether it has all the names that it wants."""
    return _status_of(doc, "NamesAccepted") == "True"


def _status_of(doc: Doc, condition: str) -> str:
    found = find_condition((doc.get("status") or {}).get("conditions"), condition) or {}
    return str(found.get("status", ""))
