"""batch/v1: pods that run to completion."""

from __future__ import annotations

from bosket.api.core.pod import PodTemplateSpec
from bosket.api.core.reference import ObjectReference
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta, Wire


class PodFailurePolicyOnExitCodesRequirement(Wire):
    """Exit codes that a failure rule speaks of."""

    operator: str
    containerName: str | None = None
    values: tuple[int, ...] = ()


class PodFailurePolicyOnPodConditionsPattern(Wire):
    """A pod condition that a failure rule speaks of."""

    type: str
    status: str = ""


class PodFailurePolicyRule(Wire):
    """What a pod's failure of one sort means for its job."""

    action: str
    onExitCodes: PodFailurePolicyOnExitCodesRequirement | None = None
    onPodConditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Wire):
    """What pods' failures mean for a job; the first rule that matches decides."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Wire):
    """Which indexes, or how many, make a job a success."""

    succeededIndexes: str | None = None
    succeededCount: int | None = None


class SuccessPolicy(Wire):
    """When a job is a success before all of its pods are."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobTopologyConstraint(Wire):
    """A node label whose values are the domains of which a job's pods share one."""

    key: str


class WorkloadPodGroupBasicSchedulingPolicy(Wire):
    """Pods are scheduled one by one."""


class WorkloadPodGroupGangSchedulingPolicy(Wire):
    """At least `minCount` pods are scheduled together or none."""

    minCount: int | None = None


class WorkloadPodGroupSchedulingPolicy(Wire):
    """Exactly one of basic and gang."""

    basic: WorkloadPodGroupBasicSchedulingPolicy | None = None
    gang: WorkloadPodGroupGangSchedulingPolicy | None = None


class WorkloadPodGroupSchedulingConstraints(Wire):
    """Where a job's pods must be together."""

    topology: tuple[JobTopologyConstraint, ...] = ()


class WorkloadPodGroupResourceClaim(Wire):
    """A ResourceClaim, or a template of one, that all pods of a job share."""

    name: str
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class WorkloadPodGroupSingleDisruptionMode(Wire):
    """Pods are disrupted one by one."""


class WorkloadPodGroupAllDisruptionMode(Wire):
    """Pods are disrupted together."""


class WorkloadPodGroupDisruptionMode(Wire):
    """Exactly one of single and all."""

    single: WorkloadPodGroupSingleDisruptionMode | None = None
    all: WorkloadPodGroupAllDisruptionMode | None = None


class JobSchedulingConfiguration(Wire):
    """How a job's pods are scheduled as a group."""

    schedulingPolicy: WorkloadPodGroupSchedulingPolicy | None = None
    schedulingConstraints: WorkloadPodGroupSchedulingConstraints | None = None
    disruptionMode: WorkloadPodGroupDisruptionMode | None = None
    resourceClaims: tuple[WorkloadPodGroupResourceClaim, ...] = ()


class JobSpec(Wire):
    """How many pods must succeed, how many run at once, and what failure means."""

    parallelism: int | None = None
    completions: int | None = None
    activeDeadlineSeconds: int | None = None
    podFailurePolicy: PodFailurePolicy | None = None
    successPolicy: SuccessPolicy | None = None
    backoffLimit: int | None = None
    backoffLimitPerIndex: int | None = None
    maxFailedIndexes: int | None = None
    selector: LabelSelector | None = None
    manualSelector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttlSecondsAfterFinished: int | None = None
    completionMode: str | None = None
    suspend: bool | None = None
    podReplacementPolicy: str | None = None
    managedBy: str | None = None
    scheduling: JobSchedulingConfiguration | None = None


class JobCondition(Wire):
    """One observed aspect of a job."""

    type: str
    status: str
    lastProbeTime: str | None = None
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(Wire):
    """Pods that have ended and aren't in the counters yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire):
    """How far a job has come."""

    conditions: tuple[JobCondition, ...] = ()
    startTime: str | None = None
    completionTime: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completedIndexes: str = ""
    failedIndexes: str | None = None
    uncountedTerminatedPods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(KubeObject):
    """Runs pods until enough of them have succeeded."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Wire):
    """What jobs made from a template look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Wire):
    """When to make which job."""

    schedule: str = ""
    timeZone: str | None = None
    startingDeadlineSeconds: int | None = None
    concurrencyPolicy: str = ""
    suspend: bool | None = None
    jobTemplate: JobTemplateSpec = JobTemplateSpec()
    successfulJobsHistoryLimit: int | None = None
    failedJobsHistoryLimit: int | None = None


class CronJobStatus(Wire):
    """Which jobs of a cron job run, and when it last made one."""

    active: tuple[ObjectReference, ...] = ()
    lastScheduleTime: str | None = None
    lastSuccessfulTime: str | None = None


class CronJob(KubeObject):
    """Makes jobs on a schedule."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
