"""The annotation by which a group says who its top owner is: YAML, byte for byte as KAI writes it.

Names of Kubernetes objects consist of lower-case letters, digits, `-` and `.`, so the only question that YAML puts is
whether a word would be read as something else than a string.
"""

from __future__ import annotations

import re
from typing import Final

from bosket.services.podgrouper.owner import Owner

_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_WORDS: Final = frozenset(
    form
    for word in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    for form in (word, word.title(), word.upper())
)


def describe(owner: Owner) -> str:
    """The annotation's text for `owner`."""
    gvk = owner.gvk
    lines = {
        "name": owner.name,
        "uid": owner.metadata.uid,
        "group": gvk.group,
        "version": gvk.version,
        "kind": gvk.kind,
    }
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in lines.items())


def _scalar(text: str) -> str:
    ambiguous = not text or text in _WORDS or _NUMBER.fullmatch(text) or _DATE.fullmatch(text)
    return f'"{text}"' if ambiguous else text
