"""The forms in which objects leave: as stored, in another version, as metadata only, or as a table for people.

The `Accept` header asks for one. `Representation` shows an entry in it; lists and watches are built from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bosket.api.field_error import invalid_value
from bosket.apiserver.handlers.watch import Render
from bosket.apiserver.printers.table import table_head, table_row
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import JSON, StatusError, bad_request, not_acceptable
from bosket.apiserver.store.entry import Doc, Entry
from bosket.runtime.clock import Clock

_encode = msgspec.json.Encoder().encode
_JSON_HEADERS = {"content-type": JSON}
_META = "meta.k8s.io"
_PARTIAL = "PartialObjectMetadata"
_INCLUDED = ("Metadata", "Object", "None")
#: Bytes of objects that cost as much as one byte of work (`LargeObjectExecutor.run`): copied as they are stored, or
#: rendered.
_COPIED_BYTES = 64
_RENDERED_BYTES = 8


class Representation:
    """As stored, or in another API version of the kind."""

    headers = _JSON_HEADERS

    def __init__(self, request: ResourceRequest) -> None:
        self.request = request
        #: None where the stored bytes are what is wanted
        self.render: Render | None = self._render if request.version.from_storage is not None else None

    def _render(self, entry: Entry) -> bytes:
        return _encode(self.decode(entry))

    def decode(self, entry: Entry) -> Doc:
        """The object in the version that is asked for."""
        convert = self.request.version.from_storage
        doc = entry.decode()
        return doc if convert is None else convert(doc)

    def work(self, entries: Iterable[Entry]) -> int:
        """What it costs to show these entries, in bytes of work."""
        size = sum([len(entry.encoded) for entry in entries])
        return size // (_COPIED_BYTES if self.render is None else _RENDERED_BYTES)

    def one(self, entry: Entry) -> bytes:
        return entry.encoded if self.render is None else self.render(entry)

    def many(self, entries: list[Entry], metadata: dict[str, object]) -> bytes:
        render = self.render
        items = [entry.encoded for entry in entries] if render is None else [render(entry) for entry in entries]
        if not self.request.kind.custom:
            items = self._without_kind(items)
        api_version, kind = self.list_kind
        head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            kind.encode(),
            api_version.encode(),
            _encode(metadata),
        )
        # Joined and not formatted: join gives up the interpreter's lock while it copies megabytes.
        return b"".join((head, b",".join(items), b"]}\n"))

    def _without_kind(self, items: list[bytes]) -> list[bytes]:
        """Objects of a list of a built-in kind don't say what the list says already."""
        api_version, kind = self.object_kind
        head = b'{"apiVersion":"%s","kind":"%s",' % (api_version.encode(), kind.encode())
        return [b"{" + item[len(head) :] if item.startswith(head) else item for item in items]

    @property
    def object_kind(self) -> tuple[str, str]:
        return self.request.api_version, self.request.kind.kind

    @property
    def list_kind(self) -> tuple[str, str]:
        return self.request.api_version, self.request.kind.list_kind


class _MetadataOnly(Representation):
    """PartialObjectMetadata: what generic controllers need of any kind."""

    def __init__(self, request: ResourceRequest, version: str) -> None:
        super().__init__(request)
        self._api_version = f"{_META}/{version}"
        self.render = self._render

    def _render(self, entry: Entry) -> bytes:
        return _encode(
            {
                "kind": _PARTIAL,
                "apiVersion": self._api_version,
                "metadata": entry.decode()["metadata"],
            }
        )

    @property
    def object_kind(self) -> tuple[str, str]:
        return self._api_version, _PARTIAL

    @property
    def list_kind(self) -> tuple[str, str]:
        return self._api_version, f"{_PARTIAL}List"


class _Table(Representation):
    """A table of the kind's columns, as kubectl prints it."""

    def __init__(self, request: ResourceRequest, version: str, clock: Clock) -> None:
        super().__init__(request)
        self._api_version = f"{_META}/{version}"
        self._clock = clock
        self._include = request.query.get("includeObject") or "Metadata"
        if self._include not in _INCLUDED:
            error = invalid_value("includeObject", self._include, "must be 'Metadata', 'Object', 'None', or empty")
            raise bad_request(f"Unable to convert to Table as requested: {error}")
        # A watch sends the columns once, with the first rows.
        self._head: list[dict[str, Any]] | None = table_head(request.version.columns)
        self.render = self._render

    def _rows(self, entries: list[Entry]) -> bytes:
        """The rows, encoded one by one: of many thousands at once nobody else would have a turn."""
        now, columns = self._clock.now(), self.request.version.columns
        return b",".join(
            [_encode(table_row(self.decode(each), columns, now, include=self._include)) for each in entries]
        )

    def _table(self, entries: list[Entry], metadata: dict[str, object], *, head: bool) -> bytes:
        table: dict[str, Any] = {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": metadata,
            "columnDefinitions": self._head if head else None,
        }
        return b"".join((_encode(table)[:-1], b',"rows":[', self._rows(entries), b"]}"))

    def _render(self, entry: Entry) -> bytes:
        rendered = self._table([entry], {"resourceVersion": str(entry.version)}, head=self._head is not None)
        self._head = None
        return rendered

    def one(self, entry: Entry) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(entry.version)} if entry.version else {}
        return self._table([entry], metadata, head=True)

    def many(self, entries: list[Entry], metadata: dict[str, object]) -> bytes:
        return self._table(entries, metadata, head=True)

    @property
    def object_kind(self) -> tuple[str, str]:
        return self._api_version, "Table"


def _other_than_asked(wanted: str, request: ResourceRequest, *, of_list: bool) -> StatusError:
    found = f"is a list ({request.kind.list_kind})" if of_list else f"is not a list ({request.kind.kind})"
    return StatusError(406, "NotAcceptable", f"you requested {wanted}, but the requested object {found}")


def representation_for(request: ResourceRequest, clock: Clock, *, of_list: bool = False) -> Representation:
    """The first form in `Accept` that can be given; of a list, or of one object."""
    accept = request.headers.get("accept", "")
    if not accept or accept == JSON:
        return Representation(request)
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media not in (JSON, "*/*", "application/*"):
            continue
        wanted = options.get("as", "")
        if not wanted:
            return Representation(request)
        if options.get("g") != _META or options.get("v") not in ("v1", "v1beta1"):
            continue
        if wanted == "Table":
            return _Table(request, options["v"], clock)
        if wanted in (_PARTIAL, f"{_PARTIAL}List"):
            if (wanted == _PARTIAL) == of_list:
                raise _other_than_asked(wanted, request, of_list=of_list)
            return _MetadataOnly(request, options["v"])
    raise not_acceptable(JSON)
