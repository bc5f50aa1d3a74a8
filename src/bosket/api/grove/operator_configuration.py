"""operator.config.grove.io/v1alpha1 OperatorConfiguration: what an administrator says about Grove's operator.

A file, not a kind of the API server: `operator_configuration_file` reads and checks it. Fields and defaults are
Grove's; the controllers, the backends and admission are each given the part that concerns them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import field

from bosket.api.object import Wire

#: Of the Kubernetes scheduler: always enabled, and the default unless another is named.
DEFAULT_SCHEDULER: Final = "default-scheduler"
KAI_SCHEDULER: Final = "kai-scheduler"
VOLCANO_SCHEDULER: Final = "volcano"
LPX_SCHEDULER: Final = "lpx-scheduler"
KOORDINATOR_SCHEDULER: Final = "koord-scheduler"
YUNIKORN_SCHEDULER: Final = "yunikorn"

#: Names of profiles that need no package of somebody else. Grove knows the first four.
SUPPORTED_SCHEDULERS: Final = (
    KAI_SCHEDULER,
    DEFAULT_SCHEDULER,
    VOLCANO_SCHEDULER,
    LPX_SCHEDULER,
    KOORDINATOR_SCHEDULER,
    YUNIKORN_SCHEDULER,
)


class ClientConnectionConfiguration(Wire):
    """How the operator speaks to the API server."""

    qps: float = 100.0
    """Calls per second that are never held back."""
    burst: int = 120
    contentType: str = ""
    acceptContentTypes: str = ""


class LeaderElectionConfiguration(Wire):
    """Whether several operators may run, of which one works. Durations are Go's."""

    enabled: bool = False
    leaseDuration: str = "15s"
    renewDeadline: str = "10s"
    retryPeriod: str = "2s"
    resourceLock: str = "leases"
    resourceName: str = "grove-operator-leader-election"
    resourceNamespace: str = ""


class HealthProbesConfiguration(Wire):
    """Where probes are answered."""

    bindAddress: str = ""
    port: int = 2751


class MetricsConfiguration(Wire):
    """Where metrics are served."""

    bindAddress: str = ""
    port: int = 2752


class WebhookServerConfiguration(Wire):
    """Where the webhooks are served, and with which certificate."""

    bindAddress: str = ""
    port: int = 2750
    serverCertDir: str = "/etc/grove-operator/webhook-certs"
    """Where tls.crt and tls.key lie, if they are provided by somebody else."""
    secretName: str = "grove-webhook-server-cert"
    """Where replicas keep the certificate that they made."""
    certProvisionMode: Literal["auto", "manual"] = "auto"
    """Whether the operator makes its certificate, or reads one that somebody else keeps."""


class ServerConfiguration(Wire):
    """What the operator serves."""

    webhooks: WebhookServerConfiguration = WebhookServerConfiguration()
    healthProbes: HealthProbesConfiguration = HealthProbesConfiguration()
    metrics: MetricsConfiguration = MetricsConfiguration()


class DebuggingConfiguration(Wire):
    """Profiling."""

    enableProfiling: bool = False
    pprofBindHost: str = "127.0.0.1"
    pprofBindPort: int = 2753


class BusyControllerConfiguration(Wire):
    """A controller with much to do: how many objects it works on at a time."""

    concurrentSyncs: int = 10


class ControllerConfiguration(Wire):
    """A controller: how many objects it works on at a time."""

    concurrentSyncs: int = 5


class ControllersConfiguration(Wire):
    """How much each controller does at a time."""

    podCliqueSet: BusyControllerConfiguration = BusyControllerConfiguration()
    podClique: BusyControllerConfiguration = BusyControllerConfiguration()
    podCliqueScalingGroup: ControllerConfiguration = ControllerConfiguration()
    podGang: ControllerConfiguration = ControllerConfiguration()


class AuthorizerConfiguration(Wire):
    """Whether only the operator may change what it made."""

    enabled: bool = False
    exemptServiceAccountUserNames: tuple[str, ...] = ()
    """Who else may, as system:serviceaccount:<namespace>:<name>."""


class TopologyAwareSchedulingConfiguration(Wire):
    """Whether PodCliqueSets may have topology constraints."""

    enabled: bool = False


class NetworkConfiguration(Wire):
    """Fast networks between nodes."""

    autoMNNVLEnabled: bool = False
    """Whether ComputeDomains are made for GPU workloads that name a group of multi-node NVLink."""


class SchedulerProfile(Wire):
    """A scheduler that PodCliqueSets may be for."""

    name: str = ""
    """What their pods have as schedulerName."""
    config: dict[str, Any] = {}
    """Options of a scheduler's backend; no backend reads them."""


class SchedulerConfiguration(Wire):
    """The schedulers that PodCliqueSets may be for."""

    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(name=DEFAULT_SCHEDULER),)
    defaultProfileName: str = DEFAULT_SCHEDULER
    """The scheduler of pods that name none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are enabled."""
        return tuple(profile.name for profile in self.profiles)


class OperatorConfiguration(Wire):
    """All that can be said about the operator."""

    clientConnection: ClientConnectionConfiguration = field(
        default=ClientConnectionConfiguration(), name="runtimeClientConnection"
    )
    leaderElection: LeaderElectionConfiguration = LeaderElectionConfiguration()
    server: ServerConfiguration = ServerConfiguration()
    debugging: DebuggingConfiguration = DebuggingConfiguration()
    controllers: ControllersConfiguration = ControllersConfiguration()
    logLevel: Literal["debug", "info", "error"] = "info"
    logFormat: Literal["json", "text"] = "json"
    authorizer: AuthorizerConfiguration = AuthorizerConfiguration()
    topologyAwareScheduling: TopologyAwareSchedulingConfiguration = TopologyAwareSchedulingConfiguration()
    network: NetworkConfiguration = NetworkConfiguration()
    scheduler: SchedulerConfiguration = SchedulerConfiguration()
