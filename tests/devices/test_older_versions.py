"""Devices of clusters that have `resource.k8s.io` in its beta versions only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Pod, PodResourceClaim
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import ResourceClaim, ResourceSlice
from bosket.kube.client import Client
from bosket.kube.device_versions import DeviceVersions
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.scheduler.loop import service
from bosket.scheduler.options import Options
from bosket.services.binder import service as binder_service
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.device import claim_spec, device, device_class, device_request, device_slice
from tests.rig import NAMESPACE, Rig, make_rig

GROUP = "/apis/resource.k8s.io"
OLDER = ("v1beta1", "v1beta2")


def old_slice(spec: dict[str, Any]) -> None:
    spec["devices"] = [{"name": each.pop("name"), "basic": each} for each in spec.get("devices", ())]


def new_slice(spec: dict[str, Any]) -> None:
    spec["devices"] = [{"name": each["name"], **each["basic"]} for each in spec.get("devices", ())]


def old_claim(spec: dict[str, Any]) -> None:
    for each in spec["devices"]["requests"]:
        each.update(each.pop("exactly", {}))


def new_claim(spec: dict[str, Any]) -> None:
    requests = spec["devices"]["requests"]
    assert all("exactly" not in each for each in requests)
    spec["devices"]["requests"] = [
        {"name": each.pop("name"), "exactly": each} if "firstAvailable" not in each else each for each in requests
    ]


class OlderServer:
    """An API server as it was: this version of the group, and no other."""

    def __init__(self, inner: Transport, version: str) -> None:
        self._inner, self._version = inner, version
        self.paths: list[str] = []

    async def request(self, request: Request) -> Response:
        self.paths.append(request.path)
        if request.path.startswith(f"{GROUP}/v1/"):
            return Response(
                404, {"content-type": "application/json"}, b'{"kind":"Status","code":404,"reason":"NotFound"}'
            )
        response = await self._inner.request(self._newer(request))
        if request.path == GROUP:
            versions = [{"groupVersion": f"resource.k8s.io/{self._version}", "version": self._version}]
            return msgspec.structs.replace(
                response, body=msgspec.json.encode({"kind": "APIGroup", "versions": versions})
            )
        if request.path == "/apis":
            found = msgspec.json.decode(response.body)
            (group,) = [each for each in found["items"] if each["metadata"]["name"] == "resource.k8s.io"]
            for each in group["versions"]:
                each["version"] = self._version
                each["resources"] = [one for one in each["resources"] if one["resource"] != "devicetaintrules"]
            return msgspec.structs.replace(response, body=msgspec.json.encode(found))
        if not request.path.startswith(GROUP) or response.status >= 300:
            return response
        return msgspec.structs.replace(response, body=self._older(response.body))

    async def stream(self, request: Request) -> Stream:
        self.paths.append(request.path)
        stream = await self._inner.stream(self._newer(request))
        return _OlderStream(stream, self._older) if request.path.startswith(GROUP) else stream

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _newer(self, request: Request) -> Request:
        if not request.path.startswith(f"{GROUP}/{self._version}"):
            return request
        path, body = request.path.replace(f"/{self._version}/", "/v1/", 1), request.body
        document = msgspec.json.decode(body) if body else None
        if isinstance(document, dict) and "apiVersion" in document:
            assert document["apiVersion"] == f"resource.k8s.io/{self._version}"
            document["apiVersion"] = "resource.k8s.io/v1"
            if self._version == "v1beta1" and document["kind"] == "ResourceClaim":
                new_claim(document["spec"])
            if self._version == "v1beta1" and document["kind"] == "ResourceSlice":
                new_slice(document["spec"])
            body = msgspec.json.encode(document)
        return msgspec.structs.replace(request, path=path, body=body)

    def _older(self, body: bytes) -> bytes:
        document = msgspec.json.decode(body)
        whole = document["object"] if set(document) == {"type", "object"} else document
        for each in (whole, *whole.get("items", ())):
            if "apiVersion" in each:
                each["apiVersion"] = f"resource.k8s.io/{self._version}"
            spec = each.get("spec", {})
            if self._version == "v1beta1" and "driver" in spec:
                old_slice(spec)
            elif self._version == "v1beta1" and "devices" in spec:
                old_claim(spec)
        return msgspec.json.encode(document)


class _OlderStream:
    def __init__(self, inner: Stream, older: Any) -> None:
        self.status, self.headers, self._inner, self._older = inner.status, inner.headers, inner, older

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._inner:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                whole = self._older(line) + b"\n"
                yield whole[:7]  # as a network cuts it
                yield whole[7:]

    async def read_all(self) -> bytes:
        return await self._inner.read_all()

    async def aclose(self) -> None:
        await self._inner.aclose()


def asking() -> Pod:
    made = pod("g-0", NAMESPACE).of_group("g").build()
    claims = (PodResourceClaim(name="x", resourceClaimName="c"),)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, resourceClaims=claims))


async def a_cluster() -> Rig:
    request = device_request("r", "device.attributes['gpu.example.com'].model == 'large'")
    return await make_rig(
        [
            node("n1", gpus=0),
            node("n2", gpus=0),
            queue("q"),
            device_class(),
            device_slice("n1", device("d0", model="small")),
            device_slice("n2", device("d1", model="small"), device("d2", model="large", capacity={"memory": "80Gi"})),
            ResourceClaim(
                metadata=ObjectMeta(name="c", namespace=NAMESPACE, labels={"kai.scheduler/queue": "q"}),
                spec=claim_spec(request),
            ),
            pod_group("g", namespace=NAMESPACE),
            asking(),
        ]
    )


@pytest.mark.looptime
@pytest.mark.parametrize("version", OLDER)
async def test_devices_are_decided_on_and_written_in_the_version_that_the_server_has(version: str) -> None:
    rig = await a_cluster()
    older = OlderServer(rig.server.transport(), version)

    async def asked() -> list[BindRequest]:
        return (await rig.client.list(BindRequest, NAMESPACE)).items

    async def given() -> tuple[str, ...]:
        claim = await rig.client.get(ResourceClaim, "c", NAMESPACE)
        return tuple(each.device for each in claim.status.allocation.devices.results) if claim.status.allocation else ()

    async with rig.running(lambda env: service(env, Options()), DeviceVersions(older)):
        (request,) = await rig.until(asked)
        assert request.spec.selectedNode == "n2"
    async with rig.running(binder_service, DeviceVersions(older)):
        assert await rig.until(given) == ("d2",)
    assert not any(path.startswith(f"{GROUP}/v1/") for path in older.paths)
    assert older.paths.count(GROUP) <= 4  # asked once by each client, and again where a claim wasn't there


@pytest.mark.parametrize("version", OLDER)
async def test_what_is_written_and_read_is_the_same_as_with_v1(version: str) -> None:
    rig = await make_rig()
    client = Client(DeviceVersions(OlderServer(rig.server.transport(), version)))
    slices = device_slice("n1", device("d0", model="large", capacity={"memory": "80Gi"}))
    claim = ResourceClaim(metadata=ObjectMeta(name="c", namespace=NAMESPACE), spec=claim_spec(device_request(count=2)))
    for made in (slices, claim):
        written = await client.create(made)
        straight = await rig.client.get(type(made), made.metadata.name, made.metadata.namespace)
        assert written == straight
        assert straight.spec == made.spec
        assert await client.get(type(made), made.metadata.name, made.metadata.namespace) == straight
    assert [each.spec for each in (await client.list(ResourceSlice)).items] == [slices.spec]


async def test_where_the_server_has_v1_nothing_is_asked_twice_or_translated() -> None:
    rig = await a_cluster()
    seen: list[str] = []

    class Listening:
        async def request(self, request: Request) -> Response:
            seen.append(request.path)
            return await inner.request(request)

        async def stream(self, request: Request) -> Stream:
            return await inner.stream(request)

        async def aclose(self) -> None:
            await inner.aclose()

    inner = rig.server.transport()
    client = Client(DeviceVersions(Listening()))
    for _ in range(3):
        await client.list(ResourceSlice)
        await client.list(Pod)
    assert seen.count(GROUP) == 1
    assert seen.count(f"{GROUP}/v1/resourceslices") == 3


@given(
    st.recursive(st.none() | st.booleans() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each))
)
@settings(max_examples=30, deadline=None)
async def test_odd_answers_are_passed_on(document: Any) -> None:
    """A server may answer anything; what isn't understood isn't this transport's to judge."""
    answers = {GROUP: b'{"versions":[{"version":"v1beta1"}]}'}

    class Odd:
        async def request(self, request: Request) -> Response:
            body = answers.get(request.path) or msgspec.json.encode({"spec": document, "items": document})
            return Response(200, {}, body)

    for path in (f"{GROUP}/v1/resourceslices", f"{GROUP}/v1/namespaces/x/resourceclaims/y"):
        response = await DeviceVersions(Odd()).request(Request("GET", path))  # type: ignore[arg-type]
        assert response.status == 200
        msgspec.json.decode(response.body)
