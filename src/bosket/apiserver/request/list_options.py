"""Options of lists and watches, with kube-apiserver's rules about combinations.

`handlers.reading` reads them from the query of a request; all broken rules are reported at once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from bosket.api.field_error import FieldError, forbidden_field, not_supported
from bosket.apiserver.status import bad_request, invalid

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"

#: Of numbers of 64 bits.
_MAX_DIGITS = 19
_MATCH: Final = "resourceVersionMatch"


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a list that was cut off goes on: after this object, in the state of that version.

    Version 0: in whatever state there is by then.
    """

    version: int
    namespace: str
    name: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of one request. `version` is empty or a number."""

    version: str
    match: str
    limit: int
    token: Token | None
    timeout_seconds: int
    #: None: nothing was said about it
    initial_events: bool | None
    bookmarks: bool

    @property
    def any_version(self) -> bool:
        """Whatever is there will do."""
        return self.version in ("", "0")


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    """Reads and checks; raises the error for the client."""
    version, match = query.get("resourceVersion", ""), query.get(_MATCH, "")
    check_version(version)
    initial = is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    continued = query.get("continue", "")
    errors = _watch_errors(match, initial, continued) if watch else _list_errors(version, match, initial, continued)
    if errors:
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    if continued and not watch and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return ListOptions(
        version=version,
        match=match,
        limit=_at_least_zero(query, "limit"),
        token=_token(continued) if continued else None,
        timeout_seconds=_at_least_zero(query, "timeoutSeconds"),
        initial_events=initial,
        bookmarks=is_true(query.get("allowWatchBookmarks")),
    )


def check_version(version: str) -> None:
    """Raise unless this may be a version that was given out; that none is asked for is fine, too."""
    if version and not (version.isascii() and version.isdigit() and len(version) <= _MAX_DIGITS):
        raise bad_request(f'invalid resource version "{version[:99]}": it must be a number from an earlier answer')


def is_true(text: str | None) -> bool:
    """Flags are set by anything that doesn't say no; also by `?watch`, without a value."""
    return text is not None and text.lower() not in ("false", "0")


def _list_errors(version: str, match: str, initial: bool | None, continued: str) -> list[FieldError]:
    errors = []
    if match:
        if not version:
            errors.append(
                forbidden_field(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if continued:
            errors.append(_not_with_continue())
        if match not in (EXACT, NOT_OLDER_THAN):
            errors.append(not_supported(_MATCH, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden_field(_MATCH, detail))
    if initial is not None:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(match: str, initial: bool | None, continued: str) -> list[FieldError]:
    errors = []
    if initial is not None and match != NOT_OLDER_THAN:
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field(_MATCH, detail))
    if match:
        if initial is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(forbidden_field(_MATCH, detail))
        if match != NOT_OLDER_THAN:
            errors.append(not_supported(_MATCH, match, (NOT_OLDER_THAN,)))
    if continued:
        errors.append(_not_with_continue())
    return errors


def _not_with_continue() -> FieldError:
    return forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def _at_least_zero(query: Mapping[str, str], name: str) -> int:
    """A number; nothing, and less than nothing, is 0, which means that it is left to the server."""
    text = query.get(name, "")
    if not text:
        return 0
    try:
        value = int(text) if len(text) <= _MAX_DIGITS + 1 else None
    except ValueError:
        value = None
    if value is None or value >= 2**63:
        raise bad_request(f'parameter {name}: "{text[:99]}" is not a number of 64 bits')
    return max(0, value)


def _token(text: str) -> Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Token)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request(
            "invalid continue token: continue key is not valid: it must be the token of an earlier answer, unchanged"
        ) from None
