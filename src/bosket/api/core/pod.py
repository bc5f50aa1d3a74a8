"""Pods and pod templates."""

from __future__ import annotations

from bosket.api.core.affinity import Affinity, Toleration, TopologySpreadConstraint
from bosket.api.core.container import Container, EphemeralContainer, ResourceRequirements
from bosket.api.core.pod_status import PodStatus
from bosket.api.core.reference import LocalObjectReference
from bosket.api.core.security import PodSecurityContext
from bosket.api.core.volume import Volume
from bosket.api.object import KubeObject, ObjectMeta, Wire
from bosket.api.quantity import Quantity


class HostAlias(Wire):
    """Host names for one address in a pod's hosts file."""

    ip: str
    hostnames: tuple[str, ...] = ()


class PodReadinessGate(Wire):
    """A condition that must be true before a pod is ready."""

    conditionType: str


class PodResourceClaim(Wire):
    """A ResourceClaim, or a template of one, that containers of the pod refer to by `name`."""

    name: str
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class PodOS(Wire):
    """The operating system that a pod needs."""

    name: str


class PodSchedulingGate(Wire):
    """Keeps a pod from being scheduled until somebody takes it away."""

    name: str


class PodSchedulingGroup(Wire):
    """The PodGroup of scheduling.k8s.io that a pod belongs to."""

    podGroupName: str | None = None


class PodWorkloadReference(Wire):
    """The group of a Workload that a pod belongs to; Kubernetes 1.35 alone has it."""

    name: str
    podGroup: str
    podGroupReplicaKey: str = ""


class PodDNSConfigOption(Wire):
    """A resolver option."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(Wire):
    """Resolver settings of a pod."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class EvictionResponder(Wire):
    """Who is asked before a pod is evicted."""

    name: str
    priority: int | None = None


class PodSpec(Wire):
    """What a pod should be."""

    volumes: tuple[Volume, ...] = ()
    initContainers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeralContainers: tuple[EphemeralContainer, ...] = ()
    restartPolicy: str = ""
    terminationGracePeriodSeconds: int | None = None
    activeDeadlineSeconds: int | None = None
    dnsPolicy: str = ""
    nodeSelector: dict[str, str] = {}
    serviceAccountName: str = ""
    serviceAccount: str = ""
    automountServiceAccountToken: bool | None = None
    nodeName: str = ""
    hostNetwork: bool = False
    hostPID: bool = False
    hostIPC: bool = False
    shareProcessNamespace: bool | None = None
    securityContext: PodSecurityContext | None = None
    imagePullSecrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    schedulerName: str = ""
    tolerations: tuple[Toleration, ...] = ()
    hostAliases: tuple[HostAlias, ...] = ()
    priorityClassName: str = ""
    priority: int | None = None
    dnsConfig: PodDNSConfig | None = None
    readinessGates: tuple[PodReadinessGate, ...] = ()
    runtimeClassName: str | None = None
    enableServiceLinks: bool | None = None
    preemptionPolicy: str | None = None
    overhead: dict[str, Quantity] = {}
    topologySpreadConstraints: tuple[TopologySpreadConstraint, ...] = ()
    setHostnameAsFQDN: bool | None = None
    os: PodOS | None = None
    hostUsers: bool | None = None
    schedulingGates: tuple[PodSchedulingGate, ...] = ()
    resourceClaims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    hostnameOverride: str | None = None
    schedulingGroup: PodSchedulingGroup | None = None
    workloadRef: PodWorkloadReference | None = None
    evictionResponders: tuple[EvictionResponder, ...] = ()


class Pod(KubeObject):
    """A set of containers that run on one node together."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Wire):
    """What pods made from a template look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(KubeObject):
    """A stored pod template."""

    template: PodTemplateSpec = PodTemplateSpec()
