"""Objects as API servers send them: read without loss, written as sparsely as they came, tolerant of nulls."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api import core, rbac, resource_k8s, storage
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import Deployment
from bosket.api.batch import Job
from bosket.api.core import Container, Node, Pod, PodSpec, ResourceRequirements
from bosket.api.object import KubeObject, ObjectMeta

RICH_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "trainer-0",
        "namespace": "ml",
        "uid": "0c2b",
        "resourceVersion": "42",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"kai.scheduler/queue": "team-a"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "7f", "controller": True}
        ],
    },
    "spec": {
        "schedulerName": "kai-scheduler",
        "priority": 50,
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "nodeSelector": {"gpu": "a100"},
        "runtimeClassName": "nvidia",
        "overhead": {"cpu": "10m"},
        "schedulingGates": [{"name": "grove.io/podgang-pending-creation"}],
        "schedulingGroup": {"podGroupName": "workers"},
        "resources": {"limits": {"cpu": "4"}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "initContainers": [
            {
                "name": "sidecar",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "100m"}},
                "startupProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1},
            }
        ],
        "containers": [
            {
                "name": "main",
                "image": "trainer:1",
                "command": ["train"],
                "env": [
                    {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['rank']"}}},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "P_"}],
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                "resources": {
                    "requests": {"cpu": 1, "memory": "1.5Gi"},
                    "limits": {"nvidia.com/gpu": "8"},
                    "claims": [{"name": "gpu", "request": "one"}],
                },
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
                "livenessProbe": {"grpc": {"port": 9000}},
                "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
            }
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": ""}}}},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}}
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
                ]
            },
        },
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
                "minDomains": 2,
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n1",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "trainer:1",
                "imageID": "sha",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
            }
        ],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "trainer-0-gpu-x"}],
        "extendedResourceClaimStatus": {
            "resourceClaimName": "trainer-0-ext",
            "requestMappings": [{"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r0"}],
        },
    },
}


def test_a_pod_with_everything_is_written_as_it_was_read() -> None:
    pod = msgspec.json.decode(msgspec.json.encode(RICH_POD), type=Pod)
    assert msgspec.json.decode(msgspec.json.encode(pod)) == RICH_POD


def test_what_is_empty_but_present_is_told_from_what_is_absent() -> None:
    """`emptyDir: {}`, an empty selector and an empty storage class name all mean something."""
    pod = msgspec.convert(RICH_POD, Pod)
    assert pod.spec.volumes[1].emptyDir == core.EmptyDirVolumeSource()
    assert pod.spec.volumes[0].emptyDir is None
    ephemeral = pod.spec.volumes[4].ephemeral
    assert ephemeral is not None
    assert ephemeral.volumeClaimTemplate is not None
    assert ephemeral.volumeClaimTemplate.spec.storageClassName == ""
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.podAntiAffinity is not None
    [term] = pod.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert term.labelSelector is not None
    assert pod.spec.tolerations[0].tolerationSeconds == 0


def test_an_object_is_written_with_nothing_but_what_was_set() -> None:
    pod = Pod(
        metadata=ObjectMeta(name="a"),
        spec=PodSpec(containers=(Container(name="c", resources=ResourceRequirements(requests={"cpu": "1"})),)),
    )
    assert msgspec.to_builtins(pod) == {
        "metadata": {"name": "a"},
        "spec": {"containers": ({"name": "c", "resources": {"requests": {"cpu": "1"}}},)},
    }


@pytest.mark.parametrize(
    ("struct", "document"),
    [
        (Pod, '{"status":{"startTime":null,"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}]}}'),
        (Node, '{"status":{"images":[{"names":null,"sizeBytes":5}]}}'),
        (core.Event, '{"eventTime":null,"firstTimestamp":null,"lastTimestamp":null,"source":{}}'),
        (core.Pod, '{"spec":{"volumes":[{"name":"v","projected":{"sources":null}}]}}'),
        (storage.CSINode, '{"spec":{"drivers":null}}'),
        (storage.CSINode, '{"spec":{"drivers":[{"name":"d","nodeID":"n","topologyKeys":null}]}}'),
        (rbac.ClusterRole, '{"rules":null}'),
        (Deployment, '{"spec":{"template":{"metadata":{"creationTimestamp":null}},"strategy":{}}}'),
        (
            CustomResourceDefinition,
            '{"status":{"acceptedNames":{"plural":"","kind":""},"conditions":null,"storedVersions":null}}',
        ),
    ],
)
def test_nulls_that_go_servers_send_are_read(struct: type[KubeObject], document: str) -> None:
    msgspec.json.decode(document, type=struct)


def test_fields_that_a_struct_does_not_know_do_no_harm() -> None:
    node = msgspec.json.decode('{"metadata":{"name":"n"},"spec":{"inventedTomorrow":{"a":[1]}}}', type=Node)
    assert node.metadata.name == "n"


@pytest.mark.parametrize(
    ("struct", "document", "where"),
    [
        (Pod, {"spec": {"containers": [{"name": 1}]}}, r"\$\.spec\.containers\[0\]\.name"),
        (Pod, {"spec": {"containers": [{}]}}, r"`name` - at `\$\.spec\.containers\[0\]`"),
        (Pod, {"spec": {"hostNetwork": "yes"}}, r"\$\.spec\.hostNetwork"),
        (Pod, {"spec": {"overhead": {"cpu": ["1"]}}}, r"\$\.spec\.overhead\[\.\.\.\]"),
        (Job, {"spec": {"parallelism": "2"}}, r"\$\.spec\.parallelism"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_of_its_field(
    struct: type[KubeObject], document: dict[str, Any], where: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=where):
        msgspec.convert(document, struct)


def test_a_device_attribute_is_typed_by_the_name_of_its_field() -> None:
    document = {
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n1",
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"index": {"int": 0}, "healthy": {"bool": False}, "model": {"string": "x"}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
            ],
        }
    }
    slice_ = msgspec.convert(document, resource_k8s.ResourceSlice)
    [device] = slice_.spec.devices
    assert device.attributes["index"].int_ == 0
    assert device.attributes["healthy"].bool_ is False
    assert msgspec.json.decode(msgspec.json.encode(slice_)) == document


def test_counts_that_may_be_numbers_or_percentages_keep_their_type() -> None:
    document = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}}}
    assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(document, Deployment))) == document
