"""Calls about a part of an object, or about something done to it: status, scale, binding, eviction and the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bosket.apiserver.handlers.eviction import Evictor
from bosket.apiserver.handlers.pod_binding import bind
from bosket.apiserver.handlers.rest import Rest, replacing, settle_name
from bosket.apiserver.handlers.scale import handle_scale
from bosket.apiserver.handlers.token_request import TokenRequests
from bosket.apiserver.request.call import Call
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
        self._handlers: dict[str, Callable[[Call], Awaitable[Response]]] = {
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

    async def handle(self, call: Call) -> Response:
        name = call.subresource
        if name in _PROCESS:
            raise StatusError(
                405, "MethodNotAllowed", f"{name} is not supported: the pods of this cluster run no processes"
            )
        return await self._handlers[name](call)

    async def status(self, call: Call) -> Response:
        if call.verb == "get":
            return await self._rest.reader.get(call)
        if call.verb == "patch" and is_apply(call.headers.get("content-type", "")):
            return await self._rest.patch(call)
        return await self._write(call, await self._change(call))

    async def scale(self, call: Call) -> Response:
        return await handle_scale(call, self._rest.writer)

    async def bind(self, call: Call) -> Response:
        return await bind(call, self._rest.writer, self._rest.admission)

    async def finalize(self, call: Call) -> Response:
        """Namespaces: the one place where `spec.finalizers` may change."""
        doc = await self._rest.decode(call)
        settle_name(call, doc)
        await self._rest.writer.aside.run(len(call.body), call.version.strategy.check_types, doc)

        def change(old: Doc) -> Doc:
            if version := doc["metadata"].get("resourceVersion"):
                old["metadata"]["resourceVersion"] = version
            old.setdefault("spec", {})["finalizers"] = doc.get("spec", {}).get("finalizers", [])
            return old

        entry = await self._rest.writer.update(write_of(call, trusted=True), call.name, change)
        return await self._rest.reader.answer(call, entry)

    async def log(self, call: Call) -> Response:
        """Simulated containers write nothing; whoever asks for their log gets nothing, not an error."""
        if call.kind.objects.get(call.namespace, call.name) is None:
            raise not_found("", "pods", call.name)
        return Response(200, {"content-type": "text/plain"}, b"")

    async def token(self, call: Call) -> Response:
        return await self._token_requests.answer(call)

    async def resize(self, call: Call) -> Response:
        """Pods: the one way to change the resources of containers."""

        def keep_rest(new: Doc, old: Doc) -> None:
            wanted = {each.get("name"): each.get("resources") for each in new.get("spec", {}).get("containers", ())}
            for container in old["spec"].get("containers", ()):
                if wanted.get(container["name"]) is not None:
                    container["resources"] = wanted[container["name"]]

        return await self._part(call, keep_rest)

    async def ephemeral_containers(self, call: Call) -> Response:
        def keep_rest(new: Doc, old: Doc) -> None:
            old["spec"]["ephemeralContainers"] = new.get("spec", {}).get("ephemeralContainers", [])

        return await self._part(call, keep_rest)

    async def _part(self, call: Call, take: Callable[[Doc, Doc], None]) -> Response:
        """Read, or change only what `take` takes over from the new object into the old one."""
        if call.verb == "get":
            return await self._rest.reader.get(call)
        whole = await self._change(call)

        def change(old: Doc) -> Doc:
            version = old["metadata"]["resourceVersion"]
            new = whole(old)
            call.version.strategy.check_types(new)
            given = new["metadata"].get("resourceVersion") or version
            take(new, old)
            old["metadata"]["resourceVersion"] = given
            return old

        return await self._write(call, change)

    async def _change(self, call: Call) -> Change:
        if call.verb == "patch":
            return await self._rest.patching(call)
        doc = await self._rest.decode(call)
        settle_name(call, doc)
        return replacing(doc)

    async def _write(self, call: Call, change: Change) -> Response:
        entry = await self._rest.writer.update(write_of(call), call.name, change)
        return await self._rest.reader.answer(call, entry)
