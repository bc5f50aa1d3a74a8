"""The client: typed verbs on an API server, over any transport.

Every service and the tools reach Kubernetes through a `Client`. Methods prepare a request (`preparation`), `_send`
carries it through the retries, a `Codec` makes objects of the answer. Failures are the exceptions of
`bosket.kube.errors`. Objects are never changed in place: `modify` writes the difference between two of them, so that
fields no Struct knows survive.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Mapping
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bosket.api.autoscaling import Scale
from bosket.api.core import Pod
from bosket.api.object import ObjectKey, Status
from bosket.api.resource import Resource
from bosket.kube import discovery, watch
from bosket.kube.codec import Codec, Kind, check_verdict, codec_of, codec_of_object, identify, untyped
from bosket.kube.errors import Conflict, Gone, Invalid, TransportError, error_from_answer
from bosket.kube.modification import is_guarded, modification
from bosket.kube.preparation import (
    Query,
    accepted,
    applied,
    binding_of,
    delete_options,
    eviction_of,
    object_path,
    selection,
)
from bosket.kube.retry import LoopSleeper, RetryPolicy, Sleeper
from bosket.kube.transport import Request, Response, Transport

T = TypeVar("T")
#: The scale subresource, which every scalable kind has.
_SCALE = Resource("autoscaling", "v1", "Scale", "scales", Scale)


class PatchType(StrEnum):
    """How a patch is meant; the values are the content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(NamedTuple, Generic[T]):
    """The objects of a list, the resourceVersion of the list, and the keys of malformed objects that were left out."""

    items: list[T]
    resource_version: str
    left_out: tuple[ObjectKey, ...] = ()


class Client:
    """Talks to one API server. Safe to share between tasks of one event loop."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "bosket",
        retry: RetryPolicy | None = None,
        clock: Sleeper | None = None,
    ) -> None:
        self._transport = transport
        self._retry = retry or RetryPolicy()
        #: Sleeps between attempts; reflectors use it, too.
        self.clock: Sleeper = clock or LoopSleeper()
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        # Built once: headers are most of the cost of a request.
        self._headers_by_type = {
            content_type: {**self._headers, "Content-Type": str(content_type)}
            for content_type in ("application/json", *PatchType)
        }

    async def aclose(self) -> None:
        await self._transport.aclose()

    # --- reading

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        codec = codec_of(kind)
        return codec.decode_answer(await self._send("GET", object_path(codec, namespace, name)))

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        page_size: int = 500,
        transform: Callable[[T], T] | None = None,
    ) -> Page[T]:
        """All matching objects. `page_size` 0 asks for everything in one answer.

        `transform` is called on each object as soon as its page arrives: fields that it drops are then never held for
        the whole list.
        """
        codec = codec_of(kind)
        path = codec.resource.path(namespace)
        try:
            return await self._list_pages(codec, path, selection(labels, fields), page_size, transform)
        except Gone:
            # 410: the server no longer has the snapshot behind the continue token. Without pages that can't happen.
            return await self._list_pages(codec, path, selection(labels, fields), 0, transform)

    async def _list_pages(
        self, codec: Codec[T], path: str, selection: Query, page_size: int, transform: Callable[[T], T] | None
    ) -> Page[T]:
        items: list[T] = []
        left_out: list[ObjectKey] = []
        version = token = ""
        headers = accepted(codec, "PartialObjectMetadataList")
        while True:
            query = selection
            if page_size:
                query += (("limit", str(page_size)),)
            if token:
                query += (("continue", token),)
            page, malformed = codec.decode_list(await self._send("GET", path, query=query, headers=headers))
            items += page.items if transform is None else map(transform, page.items)
            left_out += malformed
            # The version of the first page. If later pages are newer, the watch repeats changes that they already show,
            # which does no harm; starting from a later version would lose changes of earlier pages.
            version = version or page.metadata.resourceVersion
            token = page.metadata.continue_
            if not token:
                return Page(items, version, tuple(left_out))

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str | None = None,
        fields: str | None = None,
        timeout_seconds: int | None = None,
    ) -> AsyncGenerator[watch.WatchEvent[T], None]:
        """The events of one connection, until the server closes it. Raises `Gone` when the version is too old.

        Includes bookmarks. Close the iterator early with `contextlib.aclosing`.
        """
        codec = codec_of(kind)
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            *selection(labels, fields),
        )
        if timeout_seconds is not None:
            query += (("timeoutSeconds", str(timeout_seconds)),)
        path = codec.resource.path(namespace)
        headers = {**self._headers, **accepted(codec, "PartialObjectMetadata")}
        stream = await self._transport.stream(Request("GET", path, query, headers))
        try:
            if stream.status != 200:
                raise error_from_answer(stream.status, await stream.read_all())
            lines = watch.Lines()
            async for chunk in stream:
                for line in lines.feed(chunk):
                    yield watch.decode_event(codec, line)
        finally:
            await stream.aclose()

    # --- writing

    async def create(
        self, obj: T, namespace: str | None = None, *, kind: Kind[T] | None = None, dry_run: bool = False
    ) -> T:
        """Creates `obj` and returns the server's version. For a dict, apiVersion and kind name the kind."""
        codec = codec_of(kind) if kind is not None else codec_of_object(obj)
        path = object_path(codec, namespace or identify(obj).key.namespace, None)
        query = (("dryRun", "All"),) if dry_run else ()
        return codec.decode_answer(await self._send("POST", path, query=query, body=codec.encode(obj)))

    async def replace(self, obj: T, *, kind: Kind[T] | None = None, subresource: str | None = None) -> T:
        """Overwrites the whole object. Only for objects that are known in full: a PUT drops what `obj` doesn't show."""
        codec = codec_of(kind) if kind is not None else codec_of_object(obj)
        key = identify(obj).key
        path = object_path(codec, key.namespace, key.name, subresource)
        return codec.decode_answer(await self._send("PUT", path, body=codec.encode(obj)))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
    ) -> T:
        """Applies a patch: a dict or Struct, or, for a JSON patch, a list of operations."""
        codec = codec_of(kind)
        query: Query = ()
        if field_manager or type is PatchType.APPLY:
            query += (("fieldManager", field_manager or self._headers["User-Agent"]),)
        if force:
            query += (("force", "true"),)
        if type is PatchType.APPLY:
            patch = applied(codec, msgspec.to_builtins(patch), name, namespace)
        path = object_path(codec, namespace, name, subresource)
        return await self._patch(codec, path, patch, type, query)

    async def _patch(self, codec: Codec[T], path: str, patch: Any, type: PatchType, query: Query = ()) -> T:
        response = await self._send(
            "PATCH",
            path,
            query=query,
            body=msgspec.json.encode(patch),
            content_type=type,
            # Repeating an `add` to a list would add twice, unless the patch tests the version.
            idempotent=type is not PatchType.JSON or is_guarded(patch),
        )
        return codec.decode_answer(response)

    async def modify(self, before: T, after: T, *, kind: Kind[T] | None = None, subresource: str | None = None) -> T:
        """Writes the difference between `before`, as it was read, and `after`; raises `Conflict` if the object changed
        since.

        Sends nothing when nothing differs. Fields that the Struct doesn't know stay. If an answer is lost and the retry
        finds the first attempt carried out, that is a `Conflict`, too: the caller reads again and compares.
        """
        codec = codec_of(kind) if kind is not None else codec_of_object(before)
        identity = identify(before)
        key, version = identity.key, identity.resource_version
        if not version:
            raise ValueError(f"{codec.resource.kind} {key} has no resourceVersion: only what was read can be modified")
        change = modification(before, after)
        if change is None:
            return before
        path = object_path(codec, key.namespace, key.name, subresource)
        if isinstance(change.content, dict):
            return await self._patch(codec, path, change.content, PatchType.MERGE)
        if change.needs_document:
            change = change.with_document(await self._read_same_version(codec, key, version))
        try:
            return await self._patch(codec, path, change.content, PatchType.JSON)
        except Invalid:
            # A patch for an older document may fail to apply to the present one: report that as the conflict it is.
            await self._read_same_version(codec, key, version)
            raise

    async def _read_same_version(self, codec: Codec[Any], key: ObjectKey, version: str) -> dict[str, Any]:
        """The object as the server has it; raises `Conflict` if its version changed."""
        document = await self.get(untyped(codec.resource), key.name, key.namespace)
        found = identify(document).resource_version
        if found == version:
            return document
        message = (
            f"{codec.resource.group_resource} {key} was read in version {version} and is in version {found} by now"
        )
        raise Conflict(Status(status="Failure", code=409, reason="Conflict", message=message))

    async def scale(self, kind: Kind[T], name: str, namespace: str | None, replicas: int) -> Scale:
        """Sets the size through the scale subresource; returns a Scale, not the object."""
        path = f"{object_path(codec_of(kind), namespace, name)}/scale"
        return await self._patch(codec_of(_SCALE), path, {"spec": {"replicas": replicas}}, PatchType.MERGE)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Asks for deletion; the object is gone once its grace period and finalizers are through."""
        body = delete_options(grace_seconds, propagation, uid, resource_version)
        check_verdict(await self._send("DELETE", object_path(codec_of(kind), namespace, name), body=body))

    async def delete_collection(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        path = object_path(codec_of(kind), namespace, None)
        body = delete_options(grace_seconds)
        check_verdict(await self._send("DELETE", path, query=selection(labels, fields), body=body))

    async def bind(
        self,
        pod: Pod,
        node: str,
        *,
        annotations: Mapping[str, str] | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Binds the pod to a node; raises `Conflict` if the pod is bound already or was replaced.

        The server adds `annotations` to the pod in the same write. With `resource_version` the bind fails with
        `Conflict` if the pod changed since.
        """
        meta = pod.metadata
        binding = binding_of(pod, node, annotations, resource_version)
        path = object_path(codec_of(Pod), meta.namespace, meta.name, "binding")
        check_verdict(await self._send("POST", path, body=msgspec.json.encode(binding)))

    async def evict(self, pod: Pod, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        """Evicts the pod; raises `TooManyRequests` if a disruption budget forbids it now."""
        meta = pod.metadata
        eviction = eviction_of(pod, grace_seconds, dry_run=dry_run)
        path = object_path(codec_of(Pod), meta.namespace, meta.name, "eviction")
        # The uid makes a retry safe: a successor of the same name isn't evicted.
        idempotent = bool(meta.uid)
        check_verdict(await self._send("POST", path, body=msgspec.json.encode(eviction), idempotent=idempotent))

    # --- anything else

    async def discover(self) -> builtins.list[Resource[dict[str, Any]]]:
        """Every kind that the server serves, in every version."""

        async def fetch(path: str, accept: str) -> Response:
            return await self.raw("GET", path, headers={"Accept": accept})

        return await discovery.discover(fetch)

    async def raw(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Any request; `body` is bytes or anything that can be JSON. Failures raise as everywhere."""
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        return await self._send(method, path, query=query, body=content, headers=headers)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes = b"",
        content_type: str = "application/json",
        idempotent: bool | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        base = self._headers_by_type[content_type] if body else self._headers
        request = Request(method, path, query, {**base, **headers} if headers else base, body)
        if idempotent is None:
            idempotent = method != "POST"
        attempt = 0
        while True:
            try:
                response = await self._transport.request(request)
            except TransportError as error:
                delay = self._retry.delay_after_failure(error, attempt, idempotent=idempotent)
                if delay is None:
                    raise
            else:
                if response.status < 400:
                    return response
                delay = self._retry.delay_after_answer(response, attempt, idempotent=idempotent)
                if delay is None:
                    raise error_from_answer(response.status, response.body)
            await self.clock.sleep(delay)
            attempt += 1
