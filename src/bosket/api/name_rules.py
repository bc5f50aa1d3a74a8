"""What may be a name, a key or a value of a label; answers say what is wrong as Kubernetes says it, or are None."""

from __future__ import annotations

import re
from functools import lru_cache

#: In bytes.
LONGEST_LABEL, LONGEST_NAME = 63, 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SERVICE_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE, _SUBDOMAIN_RE = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_SERVICE_LABEL_RE = re.compile(_SERVICE_LABEL)
_QUALIFIED_RE = re.compile(_QUALIFIED)


def _pattern(what: str, example: str, pattern: str) -> str:
    return f"{what} (e.g. {example}, regex used for validation is '{pattern}')"


@lru_cache(maxsize=4096)
def subdomain_error(name: str) -> str | None:
    """What keeps `name` from being a DNS subdomain, as most names must be."""
    if len(name) > LONGEST_NAME:
        return "must be no more than 253 bytes"
    if not _SUBDOMAIN_RE.fullmatch(name):
        return _pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character",
            "'example.com'",
            _SUBDOMAIN,
        )
    return None


@lru_cache(maxsize=4096)
def label_error(name: str) -> str | None:
    """What keeps `name` from being a DNS label, as namespaces are."""
    if len(name) > LONGEST_LABEL:
        return "must be no more than 63 bytes"
    if not _LABEL_RE.fullmatch(name):
        return _pattern(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character",
            "'my-name',  or '123-abc'",
            _LABEL,
        )
    return None


@lru_cache(maxsize=4096)
def service_label_error(name: str) -> str | None:
    """What keeps `name` from being a DNS label that begins with a letter, as services and resources are named."""
    if len(name) > LONGEST_LABEL:
        return "must be no more than 63 bytes"
    if not _SERVICE_LABEL_RE.fullmatch(name):
        return _pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character",
            "'my-name',  or 'abc-123'",
            _SERVICE_LABEL,
        )
    return None


def path_segment_error(name: str) -> str | None:
    """What keeps `name` from being a part of a URL path, all that is asked of roles."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    if "/" in name or "%" in name:
        return f"may not contain '{'/' if '/' in name else '%'}'"
    return None


@lru_cache(maxsize=8192)
def label_key_error(key: str) -> str | None:
    """What keeps `key` from being a key of a label or annotation."""
    prefix, slash, name = key.rpartition("/")
    if slash and subdomain_error(prefix):
        return f"prefix part {subdomain_error(prefix)}" if prefix else "prefix part must be non-empty"
    if not name:
        return "name part must be non-empty"
    if len(name) > LONGEST_LABEL:
        return "name part must be no more than 63 bytes"
    if not _QUALIFIED_RE.fullmatch(name):
        return _pattern(
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character",
            "'MyName',  or 'my.name',  or '123-abc'",
            _QUALIFIED,
        )
    return None


@lru_cache(maxsize=8192)
def label_value_error(value: str) -> str | None:
    """What keeps `value` from being a label's."""
    if len(value) > LONGEST_LABEL:
        return "must be no more than 63 bytes"
    if value and not _QUALIFIED_RE.fullmatch(value):
        return _pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character",
            "'MyValue',  or 'my_value',  or '12345'",
            _QUALIFIED,
        )
    return None
