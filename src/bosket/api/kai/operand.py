"""What the sections of a Config have in common: how a service of the system is deployed."""

from __future__ import annotations

from typing import Literal

from bosket.api.core import Affinity, ResourceRequirements
from bosket.api.crd_marks import Int32
from bosket.api.object import Wire
from bosket.api.quantity import Quantity


class Image(Wire):
    """A container image."""

    repository: str | None = None
    name: str | None = None
    tag: str | None = None
    pullPolicy: str | None = None
    """IfNotPresent if left out."""


class K8sClientConfig(Wire):
    """How fast a service may talk to the API server."""

    burst: int | None = None
    """Calls at once: 100 if left out."""
    qps: int | None = None
    """Calls a second: 20 if left out."""


class PodDisruptionBudgetConfig(Wire):
    """Whether a service's pods are protected by a disruption budget."""

    enabled: bool | None = None
    """false if left out."""
    maxUnavailable: Int32 | None = None
    """1 if left out."""


class ServiceConfig(Wire):
    """How one service is deployed."""

    enabled: bool | None = None
    """Whether the service is deployed at all; true if left out."""
    image: Image | None = None
    resources: ResourceRequirements | None = None
    k8sClientConfig: K8sClientConfig | None = None
    affinity: Affinity | None = None
    podDisruptionBudget: PodDisruptionBudgetConfig | None = None


class EvictionRequirement(Wire):
    """When a vertical autoscaler may evict a pod."""

    resources: tuple[str, ...]
    changeRequirement: Literal["TargetHigherThanRequests", "TargetLowerThanRequests"]


class VPAUpdatePolicy(Wire):
    """How a vertical autoscaler changes pods."""

    updateMode: Literal["", "Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"] = ""
    """InPlaceOrRecreate if left out."""
    minReplicas: Int32 | None = None
    evictionRequirements: tuple[EvictionRequirement, ...] = ()


class VPAContainerPolicy(Wire):
    """What a vertical autoscaler may do to one container."""

    containerName: str = ""
    mode: Literal["", "Auto", "Off"] = ""
    minAllowed: dict[str, Quantity] = {}
    maxAllowed: dict[str, Quantity] = {}
    controlledResources: tuple[str, ...] = ()
    controlledValues: Literal["", "RequestsAndLimits", "RequestsOnly"] = ""


class VPAResourcePolicy(Wire):
    """What a vertical autoscaler may do to containers."""

    containerPolicies: tuple[VPAContainerPolicy, ...] = ()


class VPASpec(Wire):
    """Whether and how a service is scaled vertically."""

    enabled: bool | None = None
    """false if left out."""
    updatePolicy: VPAUpdatePolicy | None = None
    resourcePolicy: VPAResourcePolicy | None = None


class PortMapping(Wire):
    """A port of a Service."""

    port: int | None = None
    targetPort: int | None = None
    name: str | None = None


class WebhookSwitch(Wire):
    """Whether a controller validates the objects that it looks after."""

    enableValidation: bool | None = None
    """true if left out."""
    webhookConfigurationNamePrefix: str | None = None
    """What the name of the ValidatingWebhookConfiguration begins with."""
