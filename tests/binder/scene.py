"""Pods, nodes and bind requests on a rig, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bosket.api.core import Container, Node, Pod, PodSpec
from bosket.api.kai import BindRequest, BindRequestSpec
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.service import Environment, Service
from bosket.services.binder import BindPlugin, Options, service
from tests.rig import NAMESPACE, Rig, make_rig

NODE = "node-1"


def binder(*plugins: BindPlugin, options: Options | None = None) -> BinderFactory:
    return BinderFactory(plugins, options or Options())


@dataclass(frozen=True)
class BinderFactory:
    plugins: Sequence[BindPlugin]
    options: Options

    def __call__(self, environment: Environment) -> Service:
        return service(environment, self.options, self.plugins)


def node(name: str = NODE) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def pod(name: str = "a", *, on: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=PodSpec(containers=(Container(name="main", image="img"),), schedulerName="kai-scheduler", nodeName=on),
    )


async def ask(
    rig: Rig,
    pod_name: str = "a",
    *,
    to: str = NODE,
    name: str = "",
    limit: int | None = None,
    kind: str = "Regular",
) -> BindRequest:
    """A request as the scheduler makes it: named after the pod, and owned by it."""
    owner: tuple[OwnerReference, ...] = ()
    if pod_name:
        uid = (await rig.client.get(Pod, pod_name, NAMESPACE)).metadata.uid
        owner = (OwnerReference(apiVersion="v1", kind="Pod", name=pod_name, uid=uid),)
    return await rig.client.create(
        BindRequest(
            metadata=ObjectMeta(name=name or pod_name, namespace=NAMESPACE, ownerReferences=owner),
            spec=BindRequestSpec(podName=pod_name, selectedNode=to, receivedResourceType=kind, backoffLimit=limit),
        )
    )


async def scene(*pods: Pod) -> Rig:
    """A node, and the pods given or one called `a`."""
    return await make_rig([node(), *(pods or (pod(),))])


async def finished(rig: Rig, name: str = "a", phase: str = "Succeeded", attempts: int | None = None) -> BindRequest:
    """The request, as soon as it has come to `phase` (and so many failed attempts)."""

    async def look() -> BindRequest | None:
        request = await rig.client.get(BindRequest, name, NAMESPACE)
        reached = request.status.phase == phase and attempts in (None, request.status.failedAttempts)
        return request if reached else None

    found: BindRequest = await rig.until(look)
    return found


@dataclass(frozen=True)
class EndState:
    """Everything that the binder leaves behind, without times and versions."""

    node: str
    annotations: dict[str, str]
    conditions: frozenset[tuple[str, str, str, str]]
    phase: str
    reason: str
    failed_attempts: int


async def end_state(rig: Rig, name: str = "a") -> EndState:
    a_pod = await rig.client.get(Pod, name, NAMESPACE)
    status = (await rig.client.get(BindRequest, name, NAMESPACE)).status
    conditions = [(each.type, each.status, each.reason, each.message) for each in a_pod.status.conditions]
    assert len({each[0] for each in conditions}) == len(conditions), f"a condition twice: {conditions}"
    return EndState(
        node=a_pod.spec.nodeName,
        annotations=a_pod.metadata.annotations,
        conditions=frozenset(conditions),
        phase=status.phase,
        reason=status.reason,
        failed_attempts=status.failedAttempts,
    )


BOUND = EndState(
    node=NODE,
    annotations={"received-resource-type": "Regular"},
    conditions=frozenset({("PodScheduled", "True", "", "")}),
    phase="Succeeded",
    reason="",
    failed_attempts=0,
)


#: What a pod says as well when it had to say before that it could not be bound.
BOUND_AFTER_ALL = ("PodBound", "True", "Bound", f"Pod bound successfully to node {NODE}")


async def call_unbound(rig: Rig, name: str = "a") -> None:
    """The pod says that it could not be bound, as an attempt before has left it."""
    condition = {"type": "PodBound", "status": "False", "reason": "BindingError", "message": "it rained"}
    await rig.client.patch(
        Pod, name, {"status": {"conditions": [condition]}}, namespace=NAMESPACE, subresource="status"
    )


class Ledger:
    """Writes down which requests the server carried out."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.carried_out: list[Request] = []

    async def request(self, request: Request) -> Response:
        response = await self._inner.request(request)
        if response.status < 400:
            self.carried_out.append(request)
        return response

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def writes(self) -> list[str]:
        """Method and the last part of the path, of everything but reads and events."""
        return [
            f"{each.method} {each.path.split(f'{NAMESPACE}/')[-1]}"
            for each in self.carried_out
            if each.method != "GET" and not each.path.endswith("/events")
        ]

    def binds(self) -> int:
        return sum(each.path.endswith("/binding") for each in self.carried_out)
