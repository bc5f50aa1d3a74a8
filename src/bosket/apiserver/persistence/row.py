"""One row of the database, with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

_DIGEST_BYTES: Final = 8


class Row(NamedTuple):
    """One write, as it is kept."""

    version: int
    previous: int
    deleted: int
    group: str
    plural: str
    namespace: str
    name: str
    creator: str
    document: bytes

    @property
    def shown(self) -> str:
        """The object that the row is about, as people name it."""
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{resource} {self.namespace}/{self.name}" if self.namespace else f"{resource} {self.name}"


def checksum(values: Iterable[int | str | bytes]) -> bytes:
    """Differs, but for one in 2⁶⁴ cases, as soon as one bit of the values does."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for value in values:
        # The type counts, too: a flipped bit can make bytes of a text. A bool comes back as a number.
        if isinstance(value, bytes):
            kind, encoded = b"b", value
        elif isinstance(value, str):
            kind, encoded = b"s", value.encode(errors="surrogatepass")
        else:
            kind, encoded = b"i", b"%d" % value
        digest.update(b"%s%d:" % (kind, len(encoded)))
        digest.update(encoded)
    return digest.digest()
