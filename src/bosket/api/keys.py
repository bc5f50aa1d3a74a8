"""Names that Bosket shares with users and other components: labels, annotations, resources, well-known objects.

`*_LABEL` and `*_ANNOTATION` say where a key stands. Those of KAI keep KAI's spelling, old prefixes included: clusters
hold objects with them. Bosket's own begin with `bosket.dev/`.
"""

from __future__ import annotations

from typing import Final

# Names -------------------------------------------------------------------------------------------------------------

SCHEDULER_NAME: Final = "kai-scheduler"
#: Kubernetes' own, and that of pods which name none.
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
#: Where KAI's components, their leases and configuration live.
SYSTEM_NAMESPACE: Final = "kai-scheduler"
RESERVATION_NAMESPACE: Final = "kai-resource-reservation"
RESERVATION_SERVICE_ACCOUNT: Final = "kai-resource-reservation"
SCALE_ADJUST_NAMESPACE: Final = "kai-scale-adjust"
SCALING_POD_SERVICE_ACCOUNT: Final = "scaling-pod"
#: Where work goes that names no queue.
DEFAULT_QUEUE: Final = "default-queue"
DEFAULT_PARENT_QUEUE: Final = "default-parent-queue"
#: The sub-group of pods that name none.
DEFAULT_SUBGROUP: Final = "default"
#: What messages call the node pool of nodes without the label.
DEFAULT_NODE_POOL: Final = "default"
#: What the names of metrics begin with that KAI has, too.
METRICS_NAMESPACE: Final = "kai"
#: Of the ConfigMap in which the schedulers of a shard keep what they must still know after a restart.
MEMORY_SUFFIX: Final = "-memory"
#: The one Config object that is read.
CONFIG_NAME: Final = "kai-config"

#: Work of this priority and more isn't preemptible unless it says so.
NON_PREEMPTIBLE_PRIORITY: Final = 100
#: Of work without a priority class, in a cluster without a default one.
DEFAULT_WORK_PRIORITY: Final = 50
#: Priority classes of a fresh cluster.
PRIORITY_CLASSES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}

# Resources ---------------------------------------------------------------------------------------------------------

NVIDIA_GPU: Final = "nvidia.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
#: Both count as one GPU dimension.
GPU_RESOURCES: Final = (NVIDIA_GPU, AMD_GPU)
#: `nvidia.com/mig-<g>g.<m>gb`
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
#: As PodGroup status reports requests for GPU memory.
GPU_MEMORY_RESOURCE: Final = "run.ai/gpu.memory"

# Queues, pod groups, shards ----------------------------------------------------------------------------------------

QUEUE_LABEL: Final = "kai.scheduler/queue"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
POD_GROUP_ANNOTATION: Final = "pod-group-name"
SUBGROUP_LABEL: Final = "kai.scheduler/subgroup-name"
SKIP_PODGROUPER_ANNOTATION: Final = "kai.scheduler/skip-podgrouper"
#: YAML of the top owner's name, uid, group, version and kind.
TOP_OWNER_ANNOTATION: Final = "kai.scheduler/top-owner-metadata"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
PRIORITY_CLASS_LABEL: Final = "priorityClassName"
RAY_PRIORITY_CLASS_LABEL: Final = "ray.io/priority-class-name"
PROJECT_LABEL: Final = "project"
#: A label of owner and pod; an annotation on pods, which is copied to the pod group.
USER_LABEL: Final = "user"
USER_ANNOTATION: Final = "user"
PREEMPTION_DELAY_ANNOTATION: Final = "kai.scheduler/preemption-delay"
STALENESS_GRACE_PERIOD_ANNOTATION: Final = "kai.scheduler/staleness-grace-period"
BATCH_MIN_MEMBER_ANNOTATION: Final = "kai.scheduler/batch-min-member"
TASK_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"

#: RFC 3339, on pod groups.
STALE_SINCE_ANNOTATION: Final = "kai.scheduler/stale-podgroup-timestamp"
LAST_START_ANNOTATION: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION_ANNOTATION: Final = "kai.scheduler/last-eviction-timestamp"
#: Bosket's own: by whom and why a pod group was evicted last, and what was lost; see `bosket.api.eviction_note`.
EVICTION_NOTE_ANNOTATION: Final = "bosket.dev/last-eviction"

# Topology ----------------------------------------------------------------------------------------------------------

TOPOLOGY_ANNOTATION: Final = "kai.scheduler/topology"
TOPOLOGY_REQUIRED_ANNOTATION: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED_ANNOTATION: Final = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE_ANNOTATION: Final = "kai.scheduler/segment-size"
SEGMENT_TOPOLOGY_REQUIRED_ANNOTATION: Final = "kai.scheduler/segment-topology-required-placement"
SEGMENT_TOPOLOGY_PREFERRED_ANNOTATION: Final = "kai.scheduler/segment-topology-preferred-placement"
NUMA_PREDICTED_ANNOTATION: Final = "kai.scheduler/numa-placement-predicted"
NUMA_OBSERVED_ANNOTATION: Final = "kai.scheduler/numa-placement-observed"

# GPU sharing -------------------------------------------------------------------------------------------------------

GPU_FRACTION_ANNOTATION: Final = "gpu-fraction"
#: MiB.
GPU_MEMORY_ANNOTATION: Final = "gpu-memory"
GPU_FRACTION_DEVICES_ANNOTATION: Final = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER_ANNOTATION: Final = "gpu-fraction-container-name"
MPS_ANNOTATION: Final = "mps"
SHARED_GPU_CONFIG_MAP_ANNOTATION: Final = "runai/shared-gpu-configmap"
RECEIVED_RESOURCE_TYPE_ANNOTATION: Final = "received-resource-type"
GPU_GROUP_LABEL: Final = "runai-gpu-group"
#: Followed by the group, which is also the value; one for each device of a pod that shares several.
GPU_GROUP_LABEL_PREFIX: Final = "runai-gpu-group/"
#: The UUID, not the index, of the device behind a reservation pod.
RESERVED_GPU_ANNOTATION: Final = "run.ai/reserve_for_gpu_index"
#: Bosket's own: the UUIDs of the shared GPUs that a pod was given, with commas between them.
SHARED_DEVICES_ANNOTATION: Final = "bosket.dev/shared-gpu-devices"

# Bind requests, reservation pods, scaling pods ---------------------------------------------------------------------

SELECTED_NODE_LABEL: Final = "selected-node"
APP_LABEL: Final = "app"
RESERVATION_APP: Final = "kai-resource-reservation"
SCALING_POD_APP: Final = "scaling-pod"
SHARED_GPU_POD_NAME_LABEL: Final = "shared-gpu-pod-name"
SHARED_GPU_POD_NAMESPACE_LABEL: Final = "shared-gpu-pod-namespace"
KARPENTER_DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
#: For the cluster autoscaler, which otherwise keeps nodes with pods that nobody would make again.
SAFE_TO_EVICT_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

# Nodes -------------------------------------------------------------------------------------------------------------

NODE_GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
NODE_GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
NODE_MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
GPU_WORKER_LABEL: Final = "node-role.kubernetes.io/gpu-worker"
CPU_WORKER_LABEL: Final = "node-role.kubernetes.io/cpu-worker"
MIG_ENABLED_LABEL: Final = "node-role.kubernetes.io/mig-enabled"

# Events and monitoring ---------------------------------------------------------------------------------------------

EVICTED_PODS_ANNOTATION: Final = "num-evicted-pods"
EVICTOR_POD_GROUP_ANNOTATION: Final = "evictor-pod-group-name"
EVICTOR_POD_GROUP_NAMESPACE_ANNOTATION: Final = "evictor-pod-group-namespace"
EVICTOR_ACTION_ANNOTATION: Final = "evictor-action-type"
#: On ServiceMonitors, with the value "true".
ACCOUNTING_LABEL: Final = "kai.scheduler/accounting"

# Other projects' keys that groupers and plugins read ---------------------------------------------------------------

KUBEFLOW_JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
KUBEFLOW_REPLICA_TYPE_LABEL: Final = "training.kubeflow.org/replica-type"
KUBEFLOW_REPLICA_INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
RAY_NODE_TYPE_LABEL: Final = "ray.io/node-type"
RAY_GROUP_LABEL: Final = "ray.io/group"
JOBSET_REPLICATED_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB_INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-index"
LWS_SIZE_ANNOTATION: Final = "leaderworkerset.sigs.k8s.io/size"
LWS_GROUP_INDEX_LABEL: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX_LABEL: Final = "leaderworkerset.sigs.k8s.io/worker-index"
KNATIVE_REVISION_LABEL: Final = "serving.knative.dev/revision"
KNATIVE_MIN_SCALE_ANNOTATION: Final = "autoscaling.knative.dev/min-scale"
SPARK_APP_NAME_LABEL: Final = "spark-app-name"
SPARK_APP_SELECTOR_LABEL: Final = "spark-app-selector"
GROVE_POD_GANG_LABEL: Final = "grove.io/podgang"
GROVE_TOPOLOGY_ANNOTATION: Final = "grove.io/topology-name"
#: On PodGangs: which backend tells the scheduler of them; as an annotation it overrides the choice.
GROVE_BACKEND_LABEL: Final = "grove.io/scheduler-backend"
GROVE_BACKEND_ANNOTATION: Final = GROVE_BACKEND_LABEL
#: On PodGangs: the scheduler's name, as their pods say it.
GROVE_SCHEDULER_LABEL: Final = "grove.io/scheduler-name"
GROVE_POD_CLIQUE_LABEL: Final = "grove.io/podclique"
KARTA_GROUP_LABEL: Final = "run.ai/karta-group"
KARTA_KIND_LABEL: Final = "run.ai/karta-kind"
KARTA_VERSION_LABEL: Final = "run.ai/karta-version"

# Bosket's own -------------------------------------------------------------------------------------------------------

#: On PodGroups of the default scheduler: the level of topology that was asked for; a server may drop the field itself.
ASKED_LEVEL_ANNOTATION: Final = "bosket.dev/topology-level"

#: On the Config: with "true", the annotations of a queue or a priority class say who may use it.
ACCESS_CONTROL_ANNOTATION: Final = "bosket.dev/access-control"
#: On the Config, beside it: controllers whose pods are judged by who made their owner.
TRUSTED_SUBJECTS_ANNOTATION: Final = "bosket.dev/trusted-subjects"
#: On a namespace: who schedules its pods that name nobody.
NAMESPACE_SCHEDULER_LABEL: Final = "bosket.dev/scheduler-name"
#: On a bind request: JSON, the pod's annotations by which it was charged when its bind was decided.
CHARGED_ANNOTATION: Final = "bosket.dev/charged"
#: On a bind request: JSON, by claim of the pod the volume that the scheduler chose for it.
CHOSEN_VOLUMES_ANNOTATION: Final = "bosket.dev/volumes"
#: On a pod group: how long its jobs run at most, by what their user says (a duration such as 90m or 2d).
RUN_TIME_LIMIT_ANNOTATION: Final = "bosket.dev/run-time-limit"

# Bosket's own: what simulated kubelets (embedded, or kwok's) do with a pod ------------------------------------------

#: A Go duration; the pod succeeds after it. Absent: it runs until it is deleted.
RUN_DURATION_ANNOTATION: Final = "bosket.dev/run-duration"
#: With a run duration: the exit code; any but 0 makes the pod fail.
EXIT_CODE_ANNOTATION: Final = "bosket.dev/exit-code"
#: A Go duration between binding and running.
START_DELAY_ANNOTATION: Final = "bosket.dev/start-delay"

# Dynamic resource allocation, Kubernetes' own keys -----------------------------------------------------------------

#: On claims that have devices.
DEVICE_CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: "true" on the claim that stands for a pod's extended resources.
EXTENDED_RESOURCE_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
#: On claims made from a template: what the pod's spec calls it.
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"

# Service accounts, Kubernetes' own keys ----------------------------------------------------------------------------

#: The type of Secrets that hold the token of an account.
TOKEN_SECRET_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - no password
#: On such Secrets: the account's name.
TOKEN_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"  # noqa: S105 - no password
