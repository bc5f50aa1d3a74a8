"""Containers: what they run, what they ask for, how they are probed."""

from __future__ import annotations

from bosket.api.core.security import SecurityContext
from bosket.api.object import Wire
from bosket.api.quantity import Quantity


class ContainerPort(Wire):
    """A port that a container listens on; `hostPort` makes it a scheduling constraint."""

    containerPort: int
    name: str = ""
    hostPort: int = 0
    protocol: str = ""
    hostIP: str = ""


class ObjectFieldSelector(Wire):
    """A field of the pod itself."""

    fieldPath: str
    apiVersion: str = ""


class ResourceFieldSelector(Wire):
    """A container's request or limit, divided by `divisor`."""

    resource: str
    containerName: str = ""
    divisor: Quantity | None = None


class ConfigMapKeySelector(Wire):
    """One key of a ConfigMap."""

    key: str
    name: str = ""
    optional: bool | None = None


class SecretKeySelector(Wire):
    """One key of a Secret."""

    key: str
    name: str = ""
    optional: bool | None = None


class FileKeySelector(Wire):
    """One variable of an environment file that lies in a volume."""

    volumeName: str
    path: str
    key: str
    optional: bool | None = None


class EnvVarSource(Wire):
    """Where the value of an environment variable comes from."""

    fieldRef: ObjectFieldSelector | None = None
    resourceFieldRef: ResourceFieldSelector | None = None
    configMapKeyRef: ConfigMapKeySelector | None = None
    secretKeyRef: SecretKeySelector | None = None
    fileKeyRef: FileKeySelector | None = None


class EnvVar(Wire):
    """An environment variable."""

    name: str
    value: str = ""
    valueFrom: EnvVarSource | None = None


class ConfigMapEnvSource(Wire):
    """A ConfigMap whose keys become environment variables."""

    name: str = ""
    optional: bool | None = None


class SecretEnvSource(Wire):
    """A Secret whose keys become environment variables."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(Wire):
    """A source of many environment variables at once."""

    prefix: str = ""
    configMapRef: ConfigMapEnvSource | None = None
    secretRef: SecretEnvSource | None = None


class VolumeMount(Wire):
    """Where a container sees a volume."""

    name: str
    mountPath: str
    readOnly: bool = False
    recursiveReadOnly: str | None = None
    subPath: str = ""
    mountPropagation: str | None = None
    subPathExpr: str = ""
    bindMountOptions: tuple[str, ...] = ()


class VolumeDevice(Wire):
    """Where a container sees a volume as a raw block device."""

    name: str
    devicePath: str


class ContainerResourceClaim(Wire):
    """A claim of the pod (`pod.spec.resourceClaims`) that a container uses."""

    name: str
    request: str = ""


class ResourceRequirements(Wire):
    """What a container is promised (`requests`) and may use at most (`limits`)."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerResizePolicy(Wire):
    """Whether a change of one resource in place restarts the container."""

    resourceName: str
    restartPolicy: str


class ExecAction(Wire):
    """A command to run inside the container."""

    command: tuple[str, ...] = ()


class HTTPHeader(Wire):
    """A header of a probe's request."""

    name: str
    value: str


class HTTPGetAction(Wire):
    """A GET request that must answer with a success."""

    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = ""
    httpHeaders: tuple[HTTPHeader, ...] = ()
    protocol: str | None = None


class TCPSocketAction(Wire):
    """A port that must accept a connection."""

    port: int | str
    host: str = ""


class GRPCAction(Wire):
    """A gRPC health check."""

    port: int
    service: str | None = None
    mode: str | None = None


class SleepAction(Wire):
    """A pause."""

    seconds: int


class Probe(Wire):
    """A periodic check of a container."""

    exec: ExecAction | None = None
    httpGet: HTTPGetAction | None = None
    tcpSocket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initialDelaySeconds: int = 0
    timeoutSeconds: int = 0
    periodSeconds: int = 0
    successThreshold: int = 0
    failureThreshold: int = 0
    terminationGracePeriodSeconds: int | None = None


class LifecycleHandler(Wire):
    """What to do at a moment of a container's life."""

    exec: ExecAction | None = None
    httpGet: HTTPGetAction | None = None
    tcpSocket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Wire):
    """What to do after a container's start and before its stop."""

    postStart: LifecycleHandler | None = None
    preStop: LifecycleHandler | None = None
    stopSignal: str | None = None


class ContainerRestartRuleOnExitCodes(Wire):
    """Exit codes that a restart rule speaks of."""

    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Wire):
    """What to do when a container exits in a certain way."""

    action: str = ""
    exitCodes: ContainerRestartRuleOnExitCodes | None = None


class Container(Wire):
    """One program of a pod. As an init container with `restartPolicy: Always` it is a sidecar."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    workingDir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    envFrom: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resizePolicy: tuple[ContainerResizePolicy, ...] = ()
    restartPolicy: str | None = None
    restartPolicyRules: tuple[ContainerRestartRule, ...] = ()
    volumeMounts: tuple[VolumeMount, ...] = ()
    volumeDevices: tuple[VolumeDevice, ...] = ()
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None
    startupProbe: Probe | None = None
    lifecycle: Lifecycle | None = None
    terminationMessagePath: str = ""
    terminationMessagePolicy: str = ""
    imagePullPolicy: str = ""
    securityContext: SecurityContext | None = None
    stdin: bool = False
    stdinOnce: bool = False
    tty: bool = False


class EphemeralContainer(Wire):
    """A container put into a running pod to look at it; it never asks for resources."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    workingDir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    envFrom: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resizePolicy: tuple[ContainerResizePolicy, ...] = ()
    restartPolicy: str | None = None
    restartPolicyRules: tuple[ContainerRestartRule, ...] = ()
    volumeMounts: tuple[VolumeMount, ...] = ()
    volumeDevices: tuple[VolumeDevice, ...] = ()
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None
    startupProbe: Probe | None = None
    lifecycle: Lifecycle | None = None
    terminationMessagePath: str = ""
    terminationMessagePolicy: str = ""
    imagePullPolicy: str = ""
    securityContext: SecurityContext | None = None
    stdin: bool = False
    stdinOnce: bool = False
    tty: bool = False
    targetContainerName: str = ""
