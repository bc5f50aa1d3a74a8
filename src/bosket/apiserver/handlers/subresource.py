"""Calls about a part of an object, or about something done to it: status, scale, binding, eviction and the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bosket.apiserver.handlers.eviction import Evictor
from bosket.apiserver.handlers.pod_binding import bind
from bosket.apiserver.handlers.rest import Rest, replacing, settle_name
from bosket.apiserver.handlers.scale import handle_scale
from bosket.apiserver.handlers.token_request import TokenRequests
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import StatusError, not_found
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.writing.patching import is_apply
from bosket.apiserver.writing.writer import Change, write_of
from bosket.kube.transport import Response

_PROCESS = frozenset({"exec", "attach", "portforward", "proxy"})


class Subresources:
    """Handlers of calls with a subresource."""

    def __init__(self, rest: Rest, evictor: Evictor, token_requests: TokenRequests) -> None:
        self._rest = rest
        self._token_requests = token_requests
        self._handlers: dict[str, Callable[[ResourceRequest], Awaitable[Response]]] = {
            "status": self.status,
            "scale": self.scale,
            "binding": self.bind,
            "eviction": evictor.evict,
            "finalize": self.finalize,
            "log": self.log,
            "token": self.token,
            "resize": self.resize,
            "ephemeralcontainers": self.ephemeral_containers,
        }

    async def handle(self, request: ResourceRequest) -> Response:
        name = request.subresource
        if name in _PROCESS:
            raise StatusError(
                405, "MethodNotAllowed", f"{name} is not supported: the pods of this cluster run no processes"
            )
        return await self._handlers[name](request)

    async def status(self, request: ResourceRequest) -> Response:
        if request.verb == "get":
            return await self._rest.reader.get(request)
        if request.verb == "patch" and is_apply(request.headers.get("content-type", "")):
            return await self._rest.patch(request)
        return await self._write(request, await self._change(request))

    async def scale(self, request: ResourceRequest) -> Response:
        return await handle_scale(request, self._rest.writer)

    async def bind(self, request: ResourceRequest) -> Response:
        return await bind(request, self._rest.writer, self._rest.admission)

    async def finalize(self, request: ResourceRequest) -> Response:
        """Namespaces: the one place where `spec.finalizers` may change."""
        doc = await self._rest.decode(request)
        settle_name(request, doc)
        await self._rest.writer.executor.run(len(request.body), request.version.strategy.check_types, doc)

        def change(old: Doc) -> Doc:
            if version := doc["metadata"].get("resourceVersion"):
                old["metadata"]["resourceVersion"] = version
            old.setdefault("spec", {})["finalizers"] = doc.get("spec", {}).get("finalizers", [])
            return old

        entry = await self._rest.writer.update(write_of(request, trusted=True), request.name, change)
        return await self._rest.reader.respond(request, entry)

    async def log(self, request: ResourceRequest) -> Response:
        """Simulated containers write nothing; whoever asks for their log gets nothing, not an error."""
        if request.kind.objects.get(request.namespace, request.name) is None:
            raise not_found("", "pods", request.name)
        return Response(200, {"content-type": "text/plain"}, b"")

    async def token(self, request: ResourceRequest) -> Response:
        return await self._token_requests.respond(request)

    async def resize(self, request: ResourceRequest) -> Response:
        """Pods: the one way to change the resources of containers."""

        def keep_rest(new: Doc, old: Doc) -> None:
            wanted = {each.get("name"): each.get("resources") for each in new.get("spec", {}).get("containers", ())}
            for container in old["spec"].get("containers", ()):
                if wanted.get(container["name"]) is not None:
                    container["resources"] = wanted[container["name"]]

        return await self._part(request, keep_rest)

    async def ephemeral_containers(self, request: ResourceRequest) -> Response:
        def keep_rest(new: Doc, old: Doc) -> None:
            old["spec"]["ephemeralContainers"] = new.get("spec", {}).get("ephemeralContainers", [])

        return await self._part(request, keep_rest)

    async def _part(self, request: ResourceRequest, write_back: Callable[[Doc, Doc], None]) -> Response:
        """Read, or change only what `take` takes over from the new object into the old one."""
        if request.verb == "get":
            return await self._rest.reader.get(request)
        whole = await self._change(request)

        def change(old: Doc) -> Doc:
            version = old["metadata"]["resourceVersion"]
            new = whole(old)
            request.version.strategy.check_types(new)
            given = new["metadata"].get("resourceVersion") or version
            write_back(new, old)
            old["metadata"]["resourceVersion"] = given
            return old

        return await self._write(request, change)

    async def _change(self, request: ResourceRequest) -> Change:
        if request.verb == "patch":
            return await self._rest.patching(request)
        doc = await self._rest.decode(request)
        settle_name(request, doc)
        return replacing(doc)

    async def _write(self, request: ResourceRequest, change: Change) -> Response:
        entry = await self._rest.writer.update(write_of(request), request.name, change)
        return await self._rest.reader.respond(request, entry)
