"""The scale subresource: any kind with a number of replicas, seen as that number alone."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.api.field_error import invalid_value
from bosket.api.object import LabelSelector
from bosket.apiserver.objects.kind import Scale
from bosket.apiserver.request.body import check_order_size, decode_value
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.request.response import JSON_HEADERS
from bosket.apiserver.status import WrongType, bad_request, describe, invalid, not_found
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.writing.patching import patched
from bosket.apiserver.writing.writer import Change, SubresourceView, Writer, write_of
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.kube.transport import Response


async def handle_scale(request: ResourceRequest, writer: Writer) -> Response:
    """Answer to GET, PUT and PATCH on …/scale."""
    scale = request.version.scale
    assert scale is not None
    entry = request.kind.objects.get(request.namespace, request.name)
    if entry is None:
        raise not_found(request.kind.group, request.kind.plural, request.name)
    if request.verb != "get":
        check_order_size(request)
        change = _change(request, scale, await decode_value(request, writer.executor))
        entry = await writer.update(write_of(request, view=_subresource_view(scale)), request.name, change)
    return Response(200, JSON_HEADERS, msgspec.json.encode(_view(entry, scale)) + b"\n")


def _subresource_view(scale: Scale) -> SubresourceView:
    """What those who are asked about a change of the number see."""

    def write_back(doc: Doc, view: Doc) -> None:
        _set_replicas(doc, scale, (view.get("spec") or {}).get("replicas", 0))

    return SubresourceView("autoscaling", "v1", "Scale", lambda doc: _view_of(doc, scale), write_back)


def _set_replicas(doc: Doc, scale: Scale, replicas: int) -> None:
    *parents, last = scale.spec_replicas.split(".")
    place: Any = doc
    for count, parent in enumerate(parents, 1):
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):  # a definition's schema may say so, or nothing
            path = ".".join(parents[:count])
            detail = f"must be an object to hold {scale.spec_replicas}, not {describe(place)}"
            raise invalid("autoscaling", "Scale", doc["metadata"]["name"], [invalid_value(path, place, detail)])
    place[last] = replicas


def _change(request: ResourceRequest, scale: Scale, body: Any) -> Change:
    content_type = request.headers.get("content-type", "")

    def change(doc: Doc) -> Doc:
        view = _view_of(doc, scale)
        wanted = body if request.verb == "update" else patched(view, body, content_type, request.kind, None)
        if not isinstance(wanted, dict):
            raise bad_request(f"the body must be a Scale object, not {describe(wanted)}")
        metadata, spec = (wanted.get(part) or {} for part in ("metadata", "spec"))
        for name, part in (("metadata", metadata), ("spec", spec)):
            if not isinstance(part, dict):
                raise WrongType(f"{name} of a Scale must be an object, not {describe(part)}")
        if metadata.get("name") not in (None, "", request.name):
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({request.name})"
            )
        replicas = spec.get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise WrongType(f"spec.replicas must be an integer, not {describe(replicas)}")
        if replicas < 0:
            error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", request.name, [error])
        version = metadata.get("resourceVersion")
        if version is not None and not isinstance(version, str):
            raise WrongType(f"metadata.resourceVersion must be a string, not {describe(version)}")
        if version:
            doc["metadata"]["resourceVersion"] = version
        _set_replicas(doc, scale, replicas)
        return doc

    return change


def _view(entry: Entry, scale: Scale) -> Doc:
    return _view_of(entry.decode(), scale)


def _view_of(doc: Doc, scale: Scale) -> Doc:
    metadata = doc["metadata"]
    shown = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in metadata
    }
    status: dict[str, Any] = {"replicas": _at(doc, scale.status_replicas, 0)}
    if selector := _selector_text(_at(doc, scale.selector, None)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": replicas} if (replicas := _at(doc, scale.spec_replicas, 0)) else {},
        "status": status,
    }


def _at(doc: Doc, path: str, default: Any) -> Any:
    if not path:
        return default
    value: Any = doc
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def _selector_text(selector: Any) -> str:
    """Custom resources keep it as text, built-in kinds as a LabelSelector, replication controllers as a map."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    try:
        if selector and all(isinstance(value, str) for value in selector.values()):
            return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        return str(label_selector(msgspec.convert(selector, LabelSelector)))
    except (InvalidSelector, msgspec.ValidationError):
        return ""
