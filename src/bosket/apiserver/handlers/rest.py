"""The verbs on objects: create, get, list, watch, update, patch, delete.

Each turns a `ResourceRequest` into work for `Writer`, `Reader` or `Deleter` and answers in the form that the client
accepts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bosket.api.field_error import invalid_value
from bosket.api.meta import DeleteOptions
from bosket.apiserver.admission.chain import AdmissionChain
from bosket.apiserver.handlers.apply_patch import apply_patch
from bosket.apiserver.handlers.reading import Reader
from bosket.apiserver.handlers.watch import Watcher
from bosket.apiserver.request.body import body_work, check_object, check_order_size, decode_object, decode_value
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.request.response import JSON_HEADERS, deleted
from bosket.apiserver.status import bad_request, invalid
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.writing.deletion import Deleter, delete_options
from bosket.apiserver.writing.patching import is_apply, patched
from bosket.apiserver.writing.writer import Change, Writer, write_of
from bosket.kube.transport import Response

ResponseOrWatch = Response | Watcher

_ORPHANS = (
    "child pods are preserved by default when {} are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


#: Objects of a collection that are deleted before other requests run; hundreds of watches may get each deletion.
_DELETED_AT_ONCE = 20


class Rest:
    """Handlers of requests without a subresource; those with one are in `subresource`."""

    def __init__(self, writer: Writer, reader: Reader, deleter: Deleter, admission: AdmissionChain) -> None:
        self.writer = writer
        self.reader = reader
        self.deleter = deleter
        self.admission = admission
        self._verbs: dict[str, Callable[[ResourceRequest], Awaitable[ResponseOrWatch]]] = {
            "get": self.get,
            "list": self.list_page,
            "watch": self.watch,
            "create": self.create,
            "update": self.update,
            "patch": self.patch,
            "delete": self.delete,
            "deletecollection": self.delete_collection,
        }

    async def handle(self, request: ResourceRequest) -> ResponseOrWatch:
        return await self._verbs[request.verb](request)

    async def get(self, request: ResourceRequest) -> Response:
        return await self.reader.get(request)

    async def list_page(self, request: ResourceRequest) -> Response:
        return await self.reader.list_page(request)

    async def watch(self, request: ResourceRequest) -> Watcher:
        return self.reader.watch(request)

    async def create(self, request: ResourceRequest) -> Response:
        if request.version.review is not None:
            return await self._review(request)
        write = write_of(request)
        entry = await self.writer.create(write, await self.decode(request))
        return await self.reader.respond(request, entry, 201)

    async def _review(self, request: ResourceRequest) -> Response:
        """Answer a question that looks like an object."""
        assert request.version.review is not None
        check_order_size(request)
        doc = await self.decode(request)
        request.version.strategy.check_types(doc)
        request.version.review(request, doc)
        return Response(201, JSON_HEADERS, msgspec.json.encode(doc) + b"\n")

    async def update(self, request: ResourceRequest) -> Response:
        doc = await self.decode(request)
        write = write_of(request)
        name = settle_name(request, doc)
        strategy = request.version.strategy
        if strategy.create_on_update and request.kind.objects.get(request.namespace, name) is None:
            doc["metadata"].pop("resourceVersion", None)
            return await self.reader.respond(request, await self.writer.create(write, doc), 201)
        if not doc["metadata"].get("resourceVersion") and not strategy.unconditional_update:
            error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(request.kind.group, request.kind.plural, name, [error])
        entry = await self.writer.update(write, name, replacing(doc))
        return await self.reader.respond(request, entry)

    async def patch(self, request: ResourceRequest) -> Response:
        write = write_of(request)
        if is_apply(request.headers.get("content-type", "")):
            entry, created = await apply_patch(request, write, self.writer)
            return await self.reader.respond(request, entry, 201 if created else 200)
        entry = await self.writer.update(write, request.name, await self.patching(request))
        return await self.reader.respond(request, entry)

    async def decode(self, request: ResourceRequest) -> Doc:
        """The object that a request carries."""
        return await self.writer.executor.run(body_work(request), decode_object, request)

    async def patching(self, request: ResourceRequest) -> Change:
        """The change that PATCH asks for."""
        content_type = request.headers.get("content-type", "")
        body: Any = await decode_value(request, self.writer.executor)

        def change(old: Doc) -> Doc:
            return check_object(
                request, patched(old, body, content_type, request.kind, request.version.strategy.struct)
            )

        return change

    async def delete(self, request: ResourceRequest) -> Response:
        options = await delete_options(request, self.writer.executor)
        kind, version = request.kind, request.version
        await self._ask(request, kind.objects.get(request.namespace, request.name), options)
        entry, gone = self.deleter.delete(kind, version, request.namespace, request.name, options)
        response = (
            deleted(kind, entry)
            if gone and not version.strategy.returns_deleted
            else await self.reader.respond(request, entry)
        )
        unsaid = options.propagationPolicy is None and options.orphanDependents is None
        if unsaid and version.strategy.default_propagation == "Orphan":
            request.warnings.append(_ORPHANS.format(kind.plural))
        return response

    async def _ask(self, request: ResourceRequest, entry: Entry | None, options: DeleteOptions) -> None:
        """Whether others agree that an object goes; one that isn't there is nobody's business."""
        if entry is not None:
            await self.admission.check_deletion(request, entry.decode, options)

    async def delete_collection(self, request: ResourceRequest) -> Response:
        options = await delete_options(request, self.writer.executor)
        doomed = await self.reader.selected(request)
        listed = await self.reader.list_page(request)
        for count, entry in enumerate(doomed, 1):
            await self._ask(request, entry, options)
            current = request.kind.objects.get(entry.namespace, entry.name)
            if current is not None and current.uid == entry.uid:  # others have their turn, and may have deleted it
                self.deleter.delete(request.kind, request.version, entry.namespace, entry.name, options)
            if count % _DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return listed


def settle_name(request: ResourceRequest, doc: Doc) -> str:
    """The object must be the one that the path names."""
    given = doc["metadata"].setdefault("name", request.name)
    if given != request.name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({request.name})")
    namespace = doc["metadata"].get("namespace") or request.namespace
    if namespace != request.namespace:
        raise bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the request "
            f"({request.namespace})"
        )
    if request.namespace:
        doc["metadata"]["namespace"] = request.namespace
    return request.name


def replacing(doc: Doc) -> Change:
    """The change that PUT asks for: whatever was there, this is there now."""

    def change(_old: Doc) -> Doc:
        copy: Doc = msgspec.json.decode(msgspec.json.encode(doc))
        return copy  # what is done to one must not be in the next, should it have to be tried again

    return change
