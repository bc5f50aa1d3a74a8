"""What the definitions of Grove's kinds let through, fill in, and refuse and how."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.crd_judge import defaulted, refusals
from tests.api.test_crd_kai import changed

POD_CLIQUE_SET = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: simple1, namespace: ml, labels: {kai.scheduler/queue: team-a}}
spec:
  replicas: 2
  updateStrategy: {type: OnDelete}
  template:
    cliqueStartupType: CliqueStartupTypeExplicit
    terminationDelay: 4h
    priorityClassName: inference
    topologyConstraint: {topologyName: cluster, pack: {required: zone}}
    resourceClaimTemplates:
    - name: gpu
      templateSpec:
        metadata: {creationTimestamp: null, labels: {a: b}}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 1}}]}}
    resourceSharing: [{name: gpu, scope: AllReplicas, filter: {childCliqueNames: [frontend]}}]
    cliques:
    - name: frontend
      labels: {role: frontend}
      spec:
        roleName: frontend
        replicas: 2
        minAvailable: 1
        autoScalingConfig:
          maxReplicas: 5
          metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
        podSpec:
          restartPolicy: Always
          newerThanUs: {deep: [1]}
          containers:
          - name: main
            image: app:1
            ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]
            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}
            livenessProbe: {httpGet: {path: /, port: http}}
    - name: worker
      topologyConstraint: {pack: {required: rack, preferred: host}}
      spec:
        startsAfter: [frontend]
        podSpec: {containers: [{name: main, image: app:1}]}
    podCliqueScalingGroups:
    - name: group
      cliqueNames: [worker]
      scaleConfig: {minReplicas: 1, maxReplicas: 4}
status: {conditions: [], updateProgress: {currentlyUpdating: [{replicaIndex: 0}]}}
"""

POD_CLIQUE = """
apiVersion: grove.io/v1alpha1
kind: PodClique
metadata: {name: simple1-0-frontend, namespace: ml}
spec: {roleName: frontend, replicas: 0, minAvailable: 1, podSpec: {containers: [{name: main, image: app:1}]}}
status:
  readyReplicas: 1
  conditions:
  - {type: PodCliqueScheduled, status: "True", reason: Enough, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
"""

SCALING_GROUP = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueScalingGroup
metadata: {name: simple1-0-group, namespace: ml}
spec: {cliqueNames: [worker]}
status: {}
"""

TOPOLOGY_BINDING = """
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: cluster}
spec:
  levels: [{domain: zone, key: topology.kubernetes.io/zone}, {domain: host, key: kubernetes.io/hostname}]
  schedulerTopologyBindings: [{schedulerName: kai-scheduler, topologyReference: cluster-topology}]
status:
  schedulerTopologyStatuses: [{schedulerName: kai-scheduler, topologyReference: cluster-topology, inSync: false}]
"""

POD_GANG = """
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: simple1-0, namespace: ml, labels: {grove.io/scheduler-backend: kai}}
spec:
  podgroups:
  - {name: simple1-0-frontend, minReplicas: 1, podReferences: [{namespace: ml, name: simple1-0-frontend-x7k2p}]}
  - {name: simple1-0-worker, minReplicas: 1, podReferences: []}
  topologyConstraint: {packConstraint: {required: topology.kubernetes.io/zone}}
  topologyConstraintGroupConfigs: [{name: group, podGroupNames: [simple1-0-worker]}]
  reuseReservationRef: {namespace: ml, name: before}
status: {phase: Starting, placementScore: 0.5}
"""

CLIQUE = "spec.template.cliques.0"


@pytest.mark.parametrize("manifest", [POD_CLIQUE_SET, POD_CLIQUE, SCALING_GROUP, TOPOLOGY_BINDING, POD_GANG])
def test_an_ordinary_object_is_accepted(manifest: str) -> None:
    assert refusals(manifest) == []


@pytest.mark.parametrize(
    ("path", "filled_in"),
    [
        ("spec.replicas", 0),
        ("spec.updateStrategy.type", "RollingRecreate"),
        ("spec.template.cliqueStartupType", "CliqueStartupTypeAnyOrder"),
        ("spec.template.headlessServiceConfig.publishNotReadyAddresses", True),
        ("spec.template.cliques.0.spec.replicas", 1),
        ("spec.template.cliques.0.spec.roleName", ""),
        ("spec.template.podCliqueScalingGroups.0.replicas", 1),
        ("spec.template.podCliqueScalingGroups.0.minAvailable", 1),
        ("status.availableReplicas", 0),
        ("status.updatedReplicas", 0),
    ],
)
def test_what_is_left_out_is_filled_in_as_grove_does(path: str, filled_in: Any) -> None:
    bare = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "spec": {
            "updateStrategy": {},
            "template": {
                "headlessServiceConfig": {},
                "cliques": [{"name": "a", "spec": {"podSpec": {"containers": []}}}],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"]}],
            },
        },
        "status": {},
    }
    at: Any = defaulted(bare)
    for step in path.split("."):
        at = at[int(step)] if isinstance(at, list) else at[step]
    assert at == filled_in


def test_a_scale_down_to_none_is_not_filled_up_again() -> None:
    assert defaulted(POD_CLIQUE)["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("manifest", "path", "value", "reason"),
    [
        (POD_CLIQUE_SET, "spec", {}, "template"),
        (POD_CLIQUE_SET, "spec.template", {}, "cliques"),
        (POD_CLIQUE_SET, "spec.updateStrategy.type", "Sudden", "is not one of"),
        (POD_CLIQUE_SET, "spec.template.cliqueStartupType", "InOrder", "is not one of"),
        (POD_CLIQUE_SET, "spec.template.terminationDelay", "4 hours", "does not match"),
        (POD_CLIQUE_SET, f"{CLIQUE}.topologyConstraint", {"pack": {"required": "Rack"}}, "does not match"),
        (POD_CLIQUE_SET, f"{CLIQUE}.spec.podSpec.containers", [{"image": "app:1"}], "name"),
        (POD_CLIQUE_SET, f"{CLIQUE}.spec.podSpec.containers.0.resources.limits.cpu", "much", "does not match"),
        (POD_CLIQUE_SET, f"{CLIQUE}.spec.replicas", "2", "integer"),
        (POD_CLIQUE_SET, f"{CLIQUE}.resourceSharing", [{"name": "gpu", "scope": "Some"}], "is not one of"),
        (TOPOLOGY_BINDING, "spec.levels", [], "less than 1|has less"),
        (TOPOLOGY_BINDING, "spec.levels.0.key", "no label", "does not match"),
        (POD_GANG, "spec.podgroups", [{"name": "a", "minReplicas": 1}], "podReferences"),
        (POD_GANG, "status", {"conditions": []}, "phase"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_its_field(
    manifest: str, path: str, value: Any, reason: str
) -> None:
    (refusal, *_) = refusals(changed(manifest, path, value))
    assert path in refusal
    assert any(words in refusal for words in reason.split("|")), refusal


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        ({"topologyName": "cluster"}, ".pack: topologyConstraint must specify pack or deprecated packDomain"),
        ({"pack": {}}, ".pack: pack must specify at least one of required or preferred"),
        (
            {"pack": {"required": "rack"}, "packDomain": "zone"},
            "must not set both pack.required and deprecated packDomain",
        ),
    ],
)
@pytest.mark.parametrize("where", ["spec.template", CLIQUE, "spec.template.podCliqueScalingGroups.0"])
def test_a_topology_constraint_that_says_nothing_or_too_much_is_refused_at_every_level(
    where: str, constraint: Any, reason: str
) -> None:
    found = refusals(changed(POD_CLIQUE_SET, f"{where}.topologyConstraint", constraint))
    assert any(reason in refusal for refusal in found), found


@pytest.mark.parametrize(
    ("where", "field"),
    [
        ("spec.template", ".spec.template.topologyConstraint.packDomain"),
        (CLIQUE, ".spec.template.cliques"),
        ("spec.template.podCliqueScalingGroups.0", ".spec.template.podCliqueScalingGroups"),
    ],
)
def test_the_old_name_of_pack_stays_where_it_is_and_comes_nowhere_new(where: str, field: str) -> None:
    from_before = changed(POD_CLIQUE_SET, f"{where}.topologyConstraint", {"packDomain": "zone"})
    assert refusals(from_before) == [
        f"{field}: packDomain is deprecated and cannot be used on new workloads; use pack.required"
    ]
    assert refusals(from_before, old=from_before) == []


def test_two_cliques_of_one_name_are_refused() -> None:
    assert refusals(changed(POD_CLIQUE_SET, "spec.template.cliques.1.name", "frontend")) == [
        ".spec.template.cliques: duplicate name"
    ]
