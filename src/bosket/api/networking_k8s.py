"""networking.k8s.io/v1: Ingress. Nothing here serves one; clients list and prune them with the other workload kinds."""

from __future__ import annotations

from bosket.api.core import LoadBalancerIngress, TypedLocalObjectReference
from bosket.api.object import KubeObject, Wire


class ServiceBackendPort(Wire):
    """A port of a service, by name or by number."""

    name: str = ""
    number: int = 0


class IngressServiceBackend(Wire):
    """A service."""

    name: str
    port: ServiceBackendPort = ServiceBackendPort()


class IngressBackend(Wire):
    """Where requests go: a service, or another object in the namespace."""

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Wire):
    """Requests for some paths."""

    pathType: str
    backend: IngressBackend
    path: str = ""


class HTTPIngressRuleValue(Wire):
    """Paths, and where requests for them go."""

    paths: tuple[HTTPIngressPath, ...] = ()


class IngressRule(Wire):
    """What happens to requests for one host."""

    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Wire):
    """The certificate for some hosts."""

    hosts: tuple[str, ...] = ()
    secretName: str = ""


class IngressSpec(Wire):
    """Which requests go where."""

    ingressClassName: str | None = None
    defaultBackend: IngressBackend | None = None
    tls: tuple[IngressTLS, ...] = ()
    rules: tuple[IngressRule, ...] = ()


class IngressLoadBalancerStatus(Wire):
    """Where it is reached."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class IngressStatus(Wire):
    """What became of it."""

    loadBalancer: IngressLoadBalancerStatus = IngressLoadBalancerStatus()


class Ingress(KubeObject):
    """Lets requests from outside reach services."""

    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()
