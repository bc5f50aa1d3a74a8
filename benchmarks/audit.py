"""Who wrote what, by the audit log of a kube-apiserver: one line of JSON for each write that it answered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec


class Write(NamedTuple):
    """A kind of write."""

    author: str
    verb: str
    resource: str  #: with the subresource: `pods/binding`
    refused: bool


class _User(msgspec.Struct):
    username: str = ""


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Line(msgspec.Struct):
    verb: str
    user: _User = msgspec.field(default_factory=_User)
    about: _Object = msgspec.field(default_factory=_Object, name="objectRef")
    answer: _Status = msgspec.field(default_factory=_Status, name="responseStatus")


class AuditLog:
    """Counts what was written since it was last asked."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._decoder = msgspec.json.Decoder(_Line)

    def skip(self) -> None:
        """From here on."""
        self._read = self._file.stat().st_size if self._file.exists() else 0

    def count(self) -> Counter[Write]:
        """Writes since the last call, or since `skip`."""
        with self._file.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return Counter(map(self._write_of, whole.splitlines()))

    def _write_of(self, line: bytes) -> Write:
        said = self._decoder.decode(line)
        about = said.about
        resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
        return Write(said.user.username, said.verb, resource, said.answer.code >= 400)
