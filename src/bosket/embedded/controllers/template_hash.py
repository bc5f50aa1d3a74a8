"""Short names for versions of a pod template, fit for labels and for the ends of names."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

#: No vowels and nothing that looks like one: a hash never spells a word.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def hash_of(value: Any, salt: int | None = None) -> str:
    """Equal values have equal hashes, in every process; another `salt` gives another hash."""
    digest = hashlib.sha256(msgspec.json.encode([value, salt], order="sorted")).digest()
    number = int.from_bytes(digest[:8])
    letters = []
    for _ in range(_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
