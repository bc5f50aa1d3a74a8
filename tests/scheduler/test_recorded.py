"""A recorded snapshot is read back as the scheduler saw it; one that can't be read says what is wrong with it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bosket.api.object import ObjectKey
from bosket.scheduler.decide import decide
from bosket.scheduler.model.task import TaskStatus
from bosket.scheduler.recording.recorded import RecordedError, load, read
from bosket.testing.cluster import NOW

POD: dict[str, Any] = {
    "metadata": {"name": "a-0", "namespace": "n", "uid": "1", "annotations": {"pod-group-name": "a"}},
    "spec": {
        "schedulerName": "mine",
        "containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
    },
}
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
RECORDING: dict[str, Any] = {
    "config": {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "predicates"}, {"name": "nodeplacement", "arguments": {"gpu": "spread"}}]}],
    },
    "schedulerParams": {
        "schedulerName": "mine",
        "fullHierarchyFairness": True,
        "stuckInReleasingThreshold": 60_000_000_000,
    },
    "rawObjects": {
        "pods": [POD],
        "nodes": [
            {
                "metadata": {"name": "x", "labels": {"zone": "a"}},
                "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "1", "pods": "9"}},
            }
        ],
        "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {"gpu": FREE, "cpu": FREE, "memory": FREE}}}],
        "podGroups": [{"metadata": {"name": "a", "namespace": "n"}, "spec": {"queue": "q", "minMember": 1}}],
        "configMaps": [{"metadata": {"name": "of no interest"}}],
    },
}


NEAR_THE_TEAM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "db"}},
    "namespaceSelector": {"matchLabels": {"team": "ml"}},
}


def recording(**changes: Any) -> bytes:
    return json.dumps({**RECORDING, **changes}).encode()


def test_a_recording_is_decided_on_with_its_own_configuration() -> None:
    recorded = read(recording())
    assert recorded.configuration.actions == ("allocate",)
    assert [(choice.name, choice.arguments) for choice in recorded.configuration.plugins] == [
        ("predicates", {}),
        ("nodeplacement", {"gpu": "spread"}),
    ]
    decisions = decide(recorded.snapshot(NOW), recorded.configuration)
    assert {bind.task.key: bind.node for bind in decisions.binds} == {ObjectKey("n", "a-0"): "x"}


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_is_read_zipped_or_not(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "snapshot"
    if zipped:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("snapshot.json", recording())
    else:
        file.write_bytes(recording())
    assert list(load(file).snapshot(NOW).jobs) == [ObjectKey("n", "a")]


def test_parameters_decide_how_pods_are_seen() -> None:
    going = {
        **POD,
        "metadata": {**POD["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {**POD["spec"], "nodeName": "x"},
        "status": {"phase": "Running"},
    }
    objects = {**RECORDING["rawObjects"], "pods": [going]}
    snapshot = read(recording(rawObjects=objects)).snapshot(NOW)
    (task,) = snapshot.jobs[ObjectKey("n", "a")].tasks
    assert task.status == TaskStatus.STUCK_IN_RELEASING


def test_pods_that_succeeded_belong_to_their_group_though_kai_keeps_little_of_them() -> None:
    done = {
        "metadata": {"name": "a-1", "namespace": "n", "uid": "2", "annotations": {"pod-group-name": "a"}},
        "status": {"phase": "Succeeded"},
    }
    snapshot = read(recording(rawObjects={**RECORDING["rawObjects"], "pods": [POD, done]})).snapshot(NOW)
    statuses = {task.key.name: task.status for task in snapshot.jobs[ObjectKey("n", "a")].tasks}
    assert statuses == {"a-0": TaskStatus.PENDING, "a-1": TaskStatus.SUCCEEDED}


def test_what_pods_refer_to_is_recorded_too() -> None:
    spec = {
        **POD["spec"],
        "containers": [{**POD["spec"]["containers"][0], "envFrom": [{"configMapRef": {"name": "settings"}}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR_THE_TEAM]}},
    }
    neighbour = {
        "metadata": {"name": "b", "namespace": "other", "labels": {"app": "db"}},
        "spec": {"nodeName": "x", "containers": []},
        "status": {"phase": "Running"},
    }
    objects = {
        **RECORDING["rawObjects"],
        "pods": [{**POD, "spec": spec}, neighbour],
        "configMaps": [{"metadata": {"name": "settings", "namespace": "n"}, "data": {"k": "v"}}],
        "persistentVolumeClaims": [
            {"metadata": {"name": "data", "namespace": "n"}, "spec": {"storageClassName": "slow"}}
        ],
        "storageClasses": [
            {"metadata": {"name": "slow"}, "provisioner": "x.dev/disk", "volumeBindingMode": "WaitForFirstConsumer"}
        ],
        "persistentVolumes": [{"metadata": {"name": "disk"}}],
        "namespaces": [{"metadata": {"name": "other", "labels": {"team": "ml"}}}],
    }
    recorded = read(recording(rawObjects=objects))
    assert [bind.node for bind in decide(recorded.snapshot(NOW), recorded.configuration).binds] == ["x"]
    for missing in ("configMaps", "persistentVolumeClaims", "storageClasses", "namespaces"):
        without = read(recording(rawObjects={**objects, missing: []}))
        assert not decide(without.snapshot(NOW), without.configuration).binds


def test_nodes_may_be_kept_apart_by_what_they_are_for() -> None:
    parameters = {**RECORDING["schedulerParams"], "restrictSchedulingNodes": True}
    assert read(recording(schedulerParams=parameters)).snapshot(NOW).nodes.names == []


def test_what_is_missing_or_null_is_empty() -> None:
    sparse = {
        "pods": [{"metadata": {"name": "p", "labels": None}, "spec": {"containers": None}}],
        "nodes": None,
        "queues": [],
    }
    recorded = read(json.dumps({"rawObjects": sparse}).encode())
    assert recorded.parameters.full_hierarchy_fairness
    assert not recorded.snapshot(NOW).jobs


def test_objects_of_other_node_pools_are_left_out() -> None:
    parameters: dict[str, Any] = {"schedulerName": "mine", "partitionParams": {"NodePoolLabelKey": "pool"}}
    foreign = {"metadata": {"name": "y", "labels": {"pool": "other"}}, "status": {"allocatable": {"cpu": "1"}}}
    objects = {**RECORDING["rawObjects"], "nodes": [*RECORDING["rawObjects"]["nodes"], foreign]}
    assert read(recording(schedulerParams=parameters, rawObjects=objects)).snapshot(NOW).nodes.names == ["x"]
    parameters["partitionParams"] = {"NodePoolLabelKey": "pool", "NodePoolLabelValue": "other"}
    assert read(recording(schedulerParams=parameters, rawObjects=objects)).snapshot(NOW).nodes.names == ["y"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"{", "file: Input data was truncated"),
        (b"[]", "file: Expected `object`, got `array`"),
        (b"{}", "file: rawObjects is missing: this is no snapshot of a KAI scheduler"),
        (
            recording(schedulerParams={"schedulerName": 3}),
            "file: schedulerParams.schedulerName: Expected `str`, got `int`",
        ),
        (recording(config={"actions": 3}), "file: config: actions must be a comma-separated text, it is 3"),
        (recording(rawObjects={"nodes": 3}), "file: rawObjects.nodes must be a list, it is int"),
        (recording(bosket={"time": "noon"}), "file: bosket.time: 'noon' is not a time: expected RFC 3339"),
    ],
)
def test_a_bad_recording_is_refused_with_the_field_that_is_wrong(data: bytes, complaint: str) -> None:
    with pytest.raises(RecordedError) as error:
        read(data, "file")
    assert str(error.value).startswith(complaint)


def test_an_object_that_can_not_be_read_is_left_out_by_name() -> None:
    data = recording(rawObjects={"pods": [POD, {"metadata": {"name": "b"}, "spec": {"nodeName": 3}}]})
    recorded = read(data, "file")
    assert len(recorded.objects["pods"]) == 1
    assert recorded.unreadable == (
        "file: rawObjects.pods[1].spec.nodeName (b): Expected `str`, got `int`; it is left out",
    )


def test_a_bad_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordedError, match=r"nowhere: No such file"):
        load(tmp_path / "nowhere")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK nonsense")
    with pytest.raises(RecordedError, match=r"broken\.zip: not a readable zip file"):
        load(broken)
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("other.json", "{}")
    with pytest.raises(RecordedError, match=r"broken\.zip: the zip file has no snapshot\.json"):
        load(broken)
