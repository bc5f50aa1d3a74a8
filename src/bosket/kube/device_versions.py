"""DeviceVersions: a transport that speaks `resource.k8s.io/v1` with API servers that only have its betas (Kubernetes
1.32, 1.33).

Clients and informers know the kinds of dynamic resource allocation in v1 only. Discovery says, once, which version the
server has; requests go to that version, and objects are translated. `v1beta2` has the shape of v1. In `v1beta1` a
device request has no `exactly` around it, and a device's properties are in `basic`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from bosket.api.resource import AnyResource
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.kube.watch import Lines

GROUP: Final = "resource.k8s.io"
#: The best first.
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_PREFIX: Final = f"/apis/{GROUP}/v1/"
_PLURALS: Final = frozenset({"resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"})
_NOT_FOUND: Final = 404

Document = dict[str, Any]


def spoken_versions(resource: AnyResource) -> tuple[str, ...]:
    """Versions in which a server may have the kind so that it can be read through `DeviceVersions`."""
    is_translated = (resource.group, resource.version) == (GROUP, "v1") and resource.plural in _PLURALS
    return VERSIONS if is_translated else (resource.version,)


class DeviceVersions:
    """Passes requests on; requests about devices in the version that the server has."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._version = ""  # that the server has; empty: not known yet

    async def request(self, request: Request) -> Response:
        version = await self._version_for(request)
        if version == "v1":
            return await self._inner.request(request)
        response = await self._inner.request(_towards(request, version))
        if response.status == _NOT_FOUND:
            self._version = ""  # the object doesn't exist, or the server was upgraded and serves another version now
        if version == "v1beta2" or response.status >= 300:
            return response
        return msgspec.structs.replace(response, body=_translated(response.body, _answer))

    async def stream(self, request: Request) -> Stream:
        version = await self._version_for(request)
        if version == "v1":
            return await self._inner.stream(request)
        stream = await self._inner.stream(_towards(request, version))
        if stream.status == _NOT_FOUND:
            self._version = ""
        return stream if version == "v1beta2" or stream.status >= 300 else _TranslatedStream(stream)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _version_for(self, request: Request) -> str:
        if not request.path.startswith(_PREFIX) or _PLURALS.isdisjoint(request.path.split("/")):
            return "v1"
        if not self._version:
            headers = {**request.headers, "Accept": "application/json"}
            response = await self._inner.request(Request("GET", f"/apis/{GROUP}", headers=headers))
            served = _served(response)
            if not served:
                return "v1"  # which says that there are no devices
            self._version = next((each for each in VERSIONS if each in served), "v1")
        return self._version


class _TranslatedStream:
    def __init__(self, inner: Stream) -> None:
        self.status, self.headers = inner.status, inner.headers
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = Lines()
        async for chunk in self._inner:
            for line in lines.feed(chunk):
                yield _translated(line, _event) + b"\n"

    async def read_all(self) -> bytes:
        return await self._inner.read_all()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _served(response: Response) -> set[str]:
    """Versions of the group; none where the answer doesn't say."""
    try:
        document = msgspec.json.decode(response.body) if response.status == 200 else {}
        return {each["version"] for each in document.get("versions") or ()}
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return set()


def _towards(request: Request, version: str) -> Request:
    path = f"/apis/{GROUP}/{version}/{request.path.removeprefix(_PREFIX)}"

    def older(document: Document) -> Document:
        named = {**document, "apiVersion": f"{GROUP}/{version}"} if "apiVersion" in document else document
        return _each_part(named, _flat_request, _basic_device) if version == "v1beta1" else named

    return msgspec.structs.replace(request, path=path, body=_translated(request.body, older))


def _translated(body: bytes, translate: Callable[[Document], Document]) -> bytes:
    """The same for a JSON object; anything else, such as a JSON patch, isn't changed."""
    try:
        document = msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        return body
    return msgspec.json.encode(translate(document)) if isinstance(document, dict) else body


def _event(document: Document) -> Document:
    found = document.get("object")
    return {**document, "object": _answer(found)} if isinstance(found, dict) else document


def _answer(document: Document) -> Document:
    """What the server tells: an object, or a list of objects."""
    newer = dict(document)
    if str(document.get("apiVersion", "")).startswith(f"{GROUP}/"):
        newer["apiVersion"] = f"{GROUP}/v1"
    if isinstance(document.get("items"), list):
        newer["items"] = [_answer(each) if isinstance(each, dict) else each for each in document["items"]]
        return newer
    return _each_part(newer, _exact_request, _plain_device)


# --- v1beta1's shape and v1's


def _each_part(
    document: Document, request: Callable[[Document], Document], device: Callable[[Document], Document]
) -> Document:
    """The object with its requests (of a claim or a template) and its devices (of a slice) translated."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    spec = dict(spec)
    if isinstance(spec.get("spec"), dict):  # a template's
        spec["spec"] = _each_part({"spec": spec["spec"]}, request, device)["spec"]
    devices = spec.get("devices")
    if isinstance(devices, list):
        spec["devices"] = [device(each) if isinstance(each, dict) else each for each in devices]
    elif isinstance(devices, dict) and isinstance(devices.get("requests"), list):
        requests = [request(each) if isinstance(each, dict) else each for each in devices["requests"]]
        spec["devices"] = {**devices, "requests": requests}
    return {**document, "spec": spec}


def _exact_request(request: Document) -> Document:
    if "firstAvailable" in request or "exactly" in request:
        return request
    exactly = {key: value for key, value in request.items() if key != "name"}
    return {"name": request.get("name", ""), "exactly": exactly}


def _flat_request(request: Document) -> Document:
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        return request
    return {**{key: value for key, value in request.items() if key != "exactly"}, **exactly}


def _plain_device(device: Document) -> Document:
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def _basic_device(device: Document) -> Document:
    return {"name": device.get("name", ""), "basic": {key: value for key, value in device.items() if key != "name"}}
