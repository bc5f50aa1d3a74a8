"""What the definitions of KAI's kinds let through, and what they refuse and how."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.crd_judge import load, refusals

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a, labels: {kai.scheduler/node-pool: gpu-nodes}}
spec:
  displayName: Team A
  parentQueue: research
  priority: 100
  reclaimMinRuntime: 10m
  resources:
    gpu:    {quota: 8, overQuotaWeight: 2, limit: -1}
    cpu:    {quota: -1, overQuotaWeight: 1, limit: -1}
    memory: {quota: -1, overQuotaWeight: 1, limit: -1}
status:
  childQueues: [a, b]
  allocated: {cpu: "4", memory: 8Gi, nvidia.com/gpu: 500m, pods: 3}
"""

POD_GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pg-train-8f0c, namespace: ml, labels: {kai.scheduler/queue: team-a}}
spec:
  queue: team-a
  priorityClassName: train
  minSubGroup: 2
  topologyConstraint: {topology: cluster-topology, requiredTopologyLevel: topology/zone}
  subGroups:
  - {name: master, minMember: 1}
  - {name: worker, minSubGroup: 2}
  - {name: worker-0, parent: worker, minMember: 4, topologyConstraint: {topology: t, requiredTopologyLevel: rack}}
  - {name: worker-1, parent: worker, minMember: 4, topologyConstraint: {topology: t, requiredTopologyLevel: rack}}
"""

BIND_REQUEST = """
apiVersion: scheduling.run.ai/v1alpha2
kind: BindRequest
metadata: {name: pod-0, namespace: ml, labels: {selected-node: node-7}}
spec:
  podName: pod-0
  selectedNode: node-7
  receivedResourceType: Fraction
  receivedGPU: {count: 1, portion: "0.50"}
  selectedGPUGroups: [6a1c0c0e-group]
  resourceClaimAllocations:
  - name: gpu
    allocation:
      devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: node-7, device: gpu-0}]}
  predictedNUMAZones: [{zone: node-0, amount: {cpu: "4", nvidia.com/gpu: 1}}]
status: {phase: Failed, reason: node is gone, failedAttempts: 3}
"""

TOPOLOGY = """
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: cluster-topology}
spec:
  levels:
  - {nodeLabel: topology/zone, alias: zone}
  - {nodeLabel: topology/rack}
  - {nodeLabel: kubernetes.io/hostname}
"""

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: gpu-nodes}
spec:
  args: {verbosity: "4"}
  goMemLimitRatio: 0.8
  goMemLimit: 2Gi
  placementStrategy: {gpu: binpack, cpu: spread}
  partitionLabelValue: gpu-nodes
  queueDepthPerAction: {reclaim: 10}
  minRuntime: {preemptMinRuntime: 5m}
  kValue: 0.5
  usageDBConfig:
    clientType: prometheus
    connectionString: http://prometheus:9090
    usageParams: {halfLifePeriod: 10m, windowSize: 1w, windowType: sliding, fetchInterval: 1m}
  scenarioSearchBudgets:
    maxActionSearchDuration: {default: 5m, reclaim: "0"}
    maxJobSearchDuration: 4m
    maxGeneratorSearchDuration: {NodeLocalGreedy: 30s}
  plugins: {numa: {enabled: true, priority: 350, arguments: {a: b}}}
  actions: {consolidation: {enabled: false}}
"""

CONFIG = """
apiVersion: kai.scheduler/v1
kind: Config
metadata: {name: kai-config}
spec:
  namespace: kai-scheduler
  global:
    schedulerName: kai-scheduler
    nodeSelector: {pool: system}
    tolerations: [{key: system, operator: Exists, effect: NoSchedule}]
    securityContext: {runAsNonRoot: true, capabilities: {drop: [all]}}
  binder:
    service: {enabled: true, image: {name: binder, tag: v1}, resources: {limits: {cpu: 100m, memory: 200Mi}}}
    resourceReservation: {namespace: kai-resource-reservation, podResources: {requests: {cpu: 1m}}}
    plugins: {volumebinding: {enabled: true}}
  admission: {gpuSharing: true, webhook: {port: 443}}
  scheduler: {GOGC: 400, replicas: 2}
  prometheus: {enabled: true, storageSize: 50Gi, serviceMonitor: {interval: 30s}}
  numaPlacementExporter: {pollInterval: 1s}
"""


def changed(manifest: str, path: str, value: Any) -> Any:
    """The manifest with another value at a path such as `spec.levels.0.alias`."""
    obj = load(manifest)
    *steps, last = path.split(".")
    at = obj
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[last] = value
    return obj


@pytest.mark.parametrize("manifest", [QUEUE, POD_GROUP, BIND_REQUEST, TOPOLOGY, SHARD, CONFIG])
def test_an_ordinary_object_is_accepted(manifest: str) -> None:
    assert refusals(manifest) == []


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        (QUEUE, "spec", {}),
        (QUEUE, "spec.resources", {}),
        (QUEUE, "spec.resources.gpu", {}),
        (QUEUE, "spec.resources.gpu.quota", 0.5),
        (QUEUE, "spec.resources.gpu.quota", 0),
        (QUEUE, "spec.priority", -5),
        (QUEUE, "spec.preemptMinRuntime", "1h30m0.5s"),
        (QUEUE, "status.allocated", {"cpu": "1.5e3", "memory": 12}),
        (POD_GROUP, "spec", {}),
        (POD_GROUP, "spec", {"minMember": 0}),
        (POD_GROUP, "spec.minSubGroup", 9),  # more than there are children: only a warning
        (POD_GROUP, "spec.preemptibility", "non-preemptible"),
        (POD_GROUP, "spec.stalenessGracePeriod", "-1s"),
        (POD_GROUP, "spec.schedulingBackoff", -1),
        (POD_GROUP, "spec.subGroups.0.minMember", 0),
        (TOPOLOGY, "spec.levels", [{"nodeLabel": "rack"}]),
        (SHARD, "spec", {}),
        (SHARD, "spec.goMemLimitRatio", 1),
        (SHARD, "spec.usageDBConfig.usageParams.windowSize", "0"),
        (CONFIG, "spec", {}),
        (CONFIG, "spec.numaPlacementExporter.service", {"enabled": True}),
    ],
)
def test_what_kai_accepts_is_accepted(manifest: str, path: str, value: Any) -> None:
    assert refusals(changed(manifest, path, value)) == []


@pytest.mark.parametrize(
    ("manifest", "path", "value", "reason"),
    [
        (QUEUE, "spec.resources.gpu.quota", -5, "less than the minimum"),
        (QUEUE, "spec.resources.memory.limit", -2, "less than the minimum"),
        (QUEUE, "spec.resources.cpu.quota", -0.5, "0 or more, or -1 for unlimited"),
        (QUEUE, "spec.resources.cpu.overQuotaWeight", -1, "less than the minimum"),
        (QUEUE, "spec.resources.gpu.quota", "8", "number"),
        (QUEUE, "spec.priority", "high", "integer"),
        (QUEUE, "spec.reclaimMinRuntime", "10 minutes", "does not match"),
        (QUEUE, "spec.reclaimMinRuntime", "10", "does not match"),
        (QUEUE, "status.allocated.cpu", "four", "does not match"),
        (POD_GROUP, "spec.minMember", -1, "less than the minimum"),
        (POD_GROUP, "spec.preemptibility", "sometimes", "is not one of"),
        (POD_GROUP, "spec.subGroups.0.name", "Master_0", "does not match"),
        (POD_GROUP, "spec.subGroups.2.parent", "", "does not match|shorter"),
        (POD_GROUP, "spec.subGroups.0.minMember", "1", "integer"),
        (TOPOLOGY, "spec.levels", [], "less than 1|has less"),
        (TOPOLOGY, "spec.levels.0.nodeLabel", "not a label", "does not match"),
        (SHARD, "spec.goMemLimitRatio", 1.5, "greater than the maximum"),
        (SHARD, "spec.goMemLimitRatio", 0, "must be more than 0"),
        (SHARD, "spec.placementStrategy.gpu", "pack", "is not one of"),
        (SHARD, "spec.placementStrategy.cpu", "fragmentation", "is not one of"),
        (SHARD, "spec.scenarioSearchBudgets.maxJobSearchDuration", "-4m", "does not match"),
        (SHARD, "spec.scenarioSearchBudgets.maxActionSearchDuration.default", "-5m", "does not match"),
        (SHARD, "spec.usageDBConfig.usageParams.windowSize", "one week", "does not match"),
        (CONFIG, "spec.binder.replicas", "2", "integer"),
        (CONFIG, "spec.global.vpa.updatePolicy.updateMode", "Sometimes", "is not one of"),
    ],
)
def test_what_could_only_go_wrong_later_is_refused_by_the_name_of_its_field(
    manifest: str, path: str, value: Any, reason: str
) -> None:
    (refusal, *_) = refusals(changed(manifest, path, value))
    assert path in refusal
    assert any(words in refusal for words in reason.split("|")), refusal


@pytest.mark.parametrize(
    ("manifest", "path", "value", "reason"),
    [
        (POD_GROUP, "spec.minMember", 1, ".spec: minMember and minSubGroup are mutually exclusive"),
        (
            POD_GROUP,
            "spec.subGroups.1.minMember",
            1,
            ".spec.subGroups[1]: minMember and minSubGroup are mutually exclusive",
        ),
        (POD_GROUP, "spec.subGroups.0.name", "worker", ".spec.subGroups: duplicate name"),
        (
            TOPOLOGY,
            "spec.levels.1.nodeLabel",
            "topology/zone",
            ".spec.levels: every level needs a nodeLabel of its own",
        ),
        (
            TOPOLOGY,
            "spec.levels",
            [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "topology/rack"}],
            ".spec.levels: nothing is narrower than a host: kubernetes.io/hostname can only be the last level",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(manifest: str, path: str, value: Any, reason: str) -> None:
    assert any(reason in refusal for refusal in refusals(changed(manifest, path, value)))


def test_a_topology_keeps_its_levels_but_may_rename_them() -> None:
    assert refusals(changed(TOPOLOGY, "spec.levels.1.alias", "rack"), old=TOPOLOGY) == []
    (refusal,) = refusals(changed(TOPOLOGY, "spec.levels.1.nodeLabel", "topology/row"), old=TOPOLOGY)
    assert refusal == ".spec.levels: the sequence of nodeLabels can't be changed; only aliases can"
