"""Answers that are not objects: a Status that says that it is done, and warnings beside an answer."""

from __future__ import annotations

import msgspec

from bosket.apiserver.objects.kind import Kind
from bosket.apiserver.status import JSON
from bosket.apiserver.store.entry import Entry
from bosket.kube.transport import Response

JSON_HEADERS = {"content-type": JSON}


def deleted(kind: Kind, entry: Entry) -> Response:
    """An object is gone."""
    details = {"name": entry.name, "kind": kind.plural, "uid": entry.uid}
    if kind.group:
        details["group"] = kind.group
    return _success(200, details)


def created() -> Response:
    """Something was done that leaves no object of its own."""
    return _success(201, None)


def _success(code: int, details: dict[str, str] | None) -> Response:
    body: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is None:
        body["code"] = code
    else:
        body["details"] = details
    return Response(code, JSON_HEADERS, msgspec.json.encode(body) + b"\n")


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """The same answer with warnings that kubectl shows to people."""
    texts = ['299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in dict.fromkeys(warnings)]
    known = response.headers.get("warning")
    headers = {**response.headers, "warning": ", ".join([known, *texts] if known else texts)}
    return Response(response.status, headers, response.body)
