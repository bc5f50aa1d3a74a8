"""discovery.k8s.io/v1: which addresses are behind a service."""

from __future__ import annotations

from bosket.api.core import ObjectReference
from bosket.api.object import KubeObject, Wire


class EndpointConditions(Wire):
    """Whether an endpoint can be used."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForZone(Wire):
    """A zone whose clients are meant."""

    name: str


class ForNode(Wire):
    """A node whose clients are meant."""

    name: str


class EndpointHints(Wire):
    """From where an endpoint should be used."""

    forZones: tuple[ForZone, ...] = ()
    forNodes: tuple[ForNode, ...] = ()


class Endpoint(Wire):
    """One pod, or something else, behind a service."""

    addresses: tuple[str, ...]
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    targetRef: ObjectReference | None = None
    deprecatedTopology: dict[str, str] = {}
    nodeName: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(Wire):
    """A port of all endpoints."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    appProtocol: str | None = None


class EndpointSlice(KubeObject):
    """Some of the addresses behind a service."""

    addressType: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
