"""Services and their endpoints."""

from __future__ import annotations

from bosket.api.core.reference import LocalObjectReference, ObjectReference
from bosket.api.object import Condition, KubeObject, Wire


class ClientIPConfig(Wire):
    """How long a client sticks to a pod."""

    timeoutSeconds: int | None = None


class SessionAffinityConfig(Wire):
    """How clients stick to pods."""

    clientIP: ClientIPConfig | None = None


class PortStatus(Wire):
    """A port of a load balancer."""

    port: int
    protocol: str
    error: str | None = None


class LoadBalancerIngress(Wire):
    """An entry point of a load balancer."""

    ip: str = ""
    hostname: str = ""
    ipMode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Wire):
    """The entry points of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServicePort(Wire):
    """A port of a service."""

    port: int
    name: str = ""
    protocol: str = ""
    appProtocol: str | None = None
    targetPort: int | str | None = None
    nodePort: int = 0


class ServiceSpec(Wire):
    """Which pods a service stands for, and how it is reached."""

    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}
    clusterIP: str = ""
    clusterIPs: tuple[str, ...] = ()
    type: str = ""
    externalIPs: tuple[str, ...] = ()
    sessionAffinity: str = ""
    loadBalancerIP: str = ""
    loadBalancerSourceRanges: tuple[str, ...] = ()
    externalName: str = ""
    externalTrafficPolicy: str = ""
    healthCheckNodePort: int = 0
    publishNotReadyAddresses: bool = False
    sessionAffinityConfig: SessionAffinityConfig | None = None
    ipFamilies: tuple[str, ...] = ()
    ipFamilyPolicy: str | None = None
    allocateLoadBalancerNodePorts: bool | None = None
    loadBalancerClass: str | None = None
    internalTrafficPolicy: str | None = None
    trafficDistribution: str | None = None


class ServiceStatus(Wire):
    """What a service has got."""

    loadBalancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] = ()


class Service(KubeObject):
    """A stable name and address for a set of pods."""

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointAddress(Wire):
    """An address of an endpoint."""

    ip: str
    hostname: str = ""
    nodeName: str | None = None
    targetRef: ObjectReference | None = None


class EndpointPort(Wire):
    """A port of an endpoint."""

    port: int
    name: str = ""
    protocol: str = ""
    appProtocol: str | None = None


class EndpointSubset(Wire):
    """Addresses that share the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    notReadyAddresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(KubeObject):
    """The addresses behind a service."""

    subsets: tuple[EndpointSubset, ...] = ()


class ServiceAccount(KubeObject):
    """An identity for processes in pods."""

    secrets: tuple[ObjectReference, ...] = ()
    imagePullSecrets: tuple[LocalObjectReference, ...] = ()
    automountServiceAccountToken: bool | None = None


class Secret(KubeObject):
    """Secret data, base64-encoded in `data`."""

    immutable: bool | None = None
    data: dict[str, str] = {}
    stringData: dict[str, str] = {}
    type: str = ""


class ConfigMap(KubeObject):
    """Configuration data."""

    immutable: bool | None = None
    data: dict[str, str] = {}
    binaryData: dict[str, str] = {}
