"""apps/v1: controllers that keep pods running."""

from __future__ import annotations

from typing import Any

from bosket.api.core.persistent_volume import PersistentVolumeClaim
from bosket.api.core.pod import PodTemplateSpec
from bosket.api.object import KubeObject, LabelSelector, Wire


class RollingUpdateDeployment(Wire):
    """How far a deployment may stray from its size while it is updated."""

    maxUnavailable: int | str | None = None
    maxSurge: int | str | None = None


class DeploymentStrategy(Wire):
    """How old pods give way to new ones."""

    type: str = ""
    rollingUpdate: RollingUpdateDeployment | None = None


class DeploymentSpec(Wire):
    """Which pods, how many, and how to replace them."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    minReadySeconds: int = 0
    revisionHistoryLimit: int | None = None
    paused: bool = False
    progressDeadlineSeconds: int | None = None


class DeploymentCondition(Wire):
    """One observed aspect of a deployment."""

    type: str
    status: str
    lastUpdateTime: str | None = None
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class DeploymentStatus(Wire):
    """How far a deployment has come."""

    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    unavailableReplicas: int = 0
    terminatingReplicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collisionCount: int | None = None


class Deployment(KubeObject):
    """Keeps a number of pods running and replaces them when the template changes."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Wire):
    """Which pods, and how many."""

    replicas: int | None = None
    minReadySeconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetCondition(Wire):
    """One observed aspect of a replica set."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class ReplicaSetStatus(Wire):
    """How many pods there are."""

    replicas: int = 0
    fullyLabeledReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    terminatingReplicas: int | None = None
    observedGeneration: int = 0
    conditions: tuple[ReplicaSetCondition, ...] = ()


class ReplicaSet(KubeObject):
    """Keeps a number of equal pods running."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateStatefulSetStrategy(Wire):
    """Which ordinals are updated, and how many at a time."""

    partition: int | None = None
    maxUnavailable: int | str | None = None


class StatefulSetUpdateStrategy(Wire):
    """How pods of a stateful set give way to new ones."""

    type: str = ""
    rollingUpdate: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Wire):
    """When the claims of a stateful set go."""

    whenDeleted: str = ""
    whenScaled: str = ""


class StatefulSetOrdinals(Wire):
    """Where a stateful set begins to count."""

    start: int = 0


class StatefulSetSpec(Wire):
    """Which pods with which claims, how many, in which order."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volumeClaimTemplates: tuple[PersistentVolumeClaim, ...] = ()
    serviceName: str = ""
    podManagementPolicy: str = ""
    updateStrategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revisionHistoryLimit: int | None = None
    minReadySeconds: int = 0
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetCondition(Wire):
    """One observed aspect of a stateful set."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class StatefulSetStatus(Wire):
    """How far a stateful set has come."""

    observedGeneration: int = 0
    replicas: int = 0
    readyReplicas: int = 0
    currentReplicas: int = 0
    updatedReplicas: int = 0
    currentRevision: str = ""
    updateRevision: str = ""
    collisionCount: int | None = None
    conditions: tuple[StatefulSetCondition, ...] = ()
    availableReplicas: int = 0


class StatefulSet(KubeObject):
    """Keeps pods that have an identity and storage of their own."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(Wire):
    """How many nodes may be without a daemon during an update."""

    maxUnavailable: int | str | None = None
    maxSurge: int | str | None = None


class DaemonSetUpdateStrategy(Wire):
    """How pods of a daemon set give way to new ones."""

    type: str = ""
    rollingUpdate: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Wire):
    """Which pod every matching node runs."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    updateStrategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    minReadySeconds: int = 0
    revisionHistoryLimit: int | None = None


class DaemonSetCondition(Wire):
    """One observed aspect of a daemon set."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class DaemonSetStatus(Wire):
    """On how many nodes the daemon should run and runs."""

    currentNumberScheduled: int = 0
    numberMisscheduled: int = 0
    desiredNumberScheduled: int = 0
    numberReady: int = 0
    observedGeneration: int = 0
    updatedNumberScheduled: int = 0
    numberAvailable: int = 0
    numberUnavailable: int = 0
    collisionCount: int | None = None
    conditions: tuple[DaemonSetCondition, ...] = ()


class DaemonSet(KubeObject):
    """Runs one pod on every matching node."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(KubeObject):
    """A stored version of a controller's template."""

    data: Any = None
    revision: int = 0
