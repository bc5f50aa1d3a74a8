"""What the demo submits: a department with three teams, a service, and more training than the cluster can hold at
once.

The sizes are for 8 nodes of 8 GPUs. What each part is there to show stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bosket.api.apps import Deployment, DeploymentSpec
from bosket.api.batch import (
    Job,
    JobSpec,
    PodFailurePolicy,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from bosket.api.core import Container, Namespace, PodSpec, PodTemplateSpec, ResourceRequirements
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.keys import (
    BATCH_MIN_MEMBER_ANNOTATION,
    NVIDIA_GPU,
    QUEUE_LABEL,
    RUN_DURATION_ANNOTATION,
    SCHEDULER_NAME,
)
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.api.time import format_duration

NAMESPACE: Final = "demo"
DEPARTMENT: Final = "research"
#: The workload that a pod of the demo belongs to.
WORKLOAD_LABEL: Final = "bosket.dev/demo"
NODES: Final = 8
GPUS_PER_NODE: Final = 8


@dataclass(frozen=True, slots=True)
class Team:
    """A queue; `limit` None: as many GPUs as there are."""

    name: str
    quota: int
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """A Job whose pods run together or not at all."""

    name: str
    team: str
    pods: int
    gpus_per_pod: int
    run_seconds: float
    #: Since the story began.
    submit_at_seconds: float = 0.0

    @property
    def gpus(self) -> int:
        return self.pods * self.gpus_per_pod


@dataclass(frozen=True, slots=True)
class Server:
    """A Deployment: every pod for itself, until the story ends."""

    name: str
    team: str
    replicas: int
    gpus_per_pod: int


TEAMS: Final = (
    Team("language", quota=40),
    Team("vision", quota=18),
    Team("robotics", quota=6, limit=16),
)

SERVER: Final = Server("vision-serving", "vision", replicas=2, gpus_per_pod=1)

GANGS: Final = (
    # These three and the server fill all 64 GPUs, and no team has more than its quota that another could take back.
    Gang("language-pretrain", "language", pods=5, gpus_per_pod=8, run_seconds=6.0),
    Gang("vision-train", "vision", pods=4, gpus_per_pod=4, run_seconds=4.0),
    Gang("robotics-simulate", "robotics", pods=6, gpus_per_pod=1, run_seconds=5.0),
    # Needs four whole nodes: waits as a whole until pretraining is done, and holds nothing while it does.
    Gang("language-finetune", "language", pods=4, gpus_per_pod=8, run_seconds=4.0, submit_at_seconds=1.0),
    # Submitted later, but small: these fit where vision-train was, and overtake it.
    Gang("vision-evaluate", "vision", pods=8, gpus_per_pod=1, run_seconds=3.0, submit_at_seconds=1.0),
    Gang("vision-label", "vision", pods=3, gpus_per_pod=1, run_seconds=2.0, submit_at_seconds=2.0),
    Gang("language-tokenize", "language", pods=2, gpus_per_pod=2, run_seconds=2.0, submit_at_seconds=2.0),
    # Robotics may use 16 GPUs: the first of these takes them all, and the second waits though there is room.
    Gang("robotics-policy", "robotics", pods=4, gpus_per_pod=4, run_seconds=3.0, submit_at_seconds=1.5),
    Gang("robotics-tune", "robotics", pods=4, gpus_per_pod=2, run_seconds=2.0, submit_at_seconds=1.5),
)


#: Enough for a gang that is preempted several times, should its pods be gone before their condition is seen.
RETRIES: Final = 20

#: A preempted pod is no failure of its job.
SURVIVES_EVICTION: Final = PodFailurePolicy(
    rules=(
        PodFailurePolicyRule(
            action="Ignore", onPodConditions=(PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget"),)
        ),
    )
)


def namespace() -> Namespace:
    """Where all of it lives."""
    return Namespace(metadata=ObjectMeta(name=NAMESPACE))


def queues() -> list[Queue]:
    """The department, and its teams below it."""
    whole = _queue(DEPARTMENT, parent="", quota=NODES * GPUS_PER_NODE, limit=None)
    return [whole, *(_queue(team.name, DEPARTMENT, team.quota, team.limit) for team in TEAMS)]


def job(gang: Gang) -> Job:
    """The gang as a user would submit it."""
    annotations = {RUN_DURATION_ANNOTATION: format_duration(gang.run_seconds)}
    return Job(
        metadata=ObjectMeta(
            name=gang.name,
            namespace=NAMESPACE,
            labels={QUEUE_LABEL: gang.team},
            annotations={BATCH_MIN_MEMBER_ANNOTATION: str(gang.pods)},
        ),
        spec=JobSpec(
            parallelism=gang.pods,
            completions=gang.pods,
            backoffLimit=RETRIES,
            podFailurePolicy=SURVIVES_EVICTION,
            template=_template(gang.name, gang.team, gang.gpus_per_pod, "Never", annotations),
        ),
    )


def deployment(server: Server) -> Deployment:
    """The server as a user would submit it."""
    return Deployment(
        metadata=ObjectMeta(name=server.name, namespace=NAMESPACE, labels={QUEUE_LABEL: server.team}),
        spec=DeploymentSpec(
            replicas=server.replicas,
            selector=LabelSelector(matchLabels={WORKLOAD_LABEL: server.name}),
            template=_template(server.name, server.team, server.gpus_per_pod, "Always", {}),
        ),
    )


def _queue(name: str, parent: str, quota: int, limit: int | None) -> Queue:
    unlimited = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)
    gpu = QueueResource(quota=quota, overQuotaWeight=1, limit=-1 if limit is None else limit)
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(parentQueue=parent, resources=QueueResources(gpu=gpu, cpu=unlimited, memory=unlimited)),
    )


def _template(workload: str, team: str, gpus: int, restart_policy: str, annotations: dict[str, str]) -> PodTemplateSpec:
    container = Container(
        name="main",
        image="example.com/simulated",
        resources=ResourceRequirements(
            requests={"cpu": "1", "memory": "4Gi", NVIDIA_GPU: gpus}, limits={NVIDIA_GPU: gpus}
        ),
    )
    return PodTemplateSpec(
        metadata=ObjectMeta(labels={QUEUE_LABEL: team, WORKLOAD_LABEL: workload}, annotations=annotations),
        spec=PodSpec(schedulerName=SCHEDULER_NAME, restartPolicy=restart_policy, containers=(container,)),
    )
