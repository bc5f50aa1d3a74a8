"""What the scheduler knows is written to a file from which the same is decided again, and which tells no secrets."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from bosket.api import keys
from bosket.api.core import (
    Affinity,
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapProjection,
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    CSIPersistentVolumeSource,
    CSIVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Lifecycle,
    LifecycleHandler,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PodSpec,
    PodStatus,
    Probe,
    ProjectedVolumeSource,
    ResourceRequirements,
    SecretEnvSource,
    SecretProjection,
    Volume,
    VolumeProjection,
)
from bosket.api.core.container import ExecAction
from bosket.api.core.pod import Pod
from bosket.api.kai import BindRequest, BindRequestSpec, BindRequestStatus, SubGroup
from bosket.api.kai.podgroup import PodGroup
from bosket.api.object import KubeObject, ManagedFieldsEntry, ObjectKey, ObjectMeta
from bosket.api.storage import StorageClass
from bosket.kube import volume
from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.usage import NO_USAGE, Usage
from bosket.scheduler.recording import redaction
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import count, read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue, tainted, topology
from bosket.testing.cluster import NOW, state_of
from tests.present import present

OPTIONS = StateOptions()


def written(state: ClusterState, configuration: Configuration | None = None, now: float = NOW) -> bytes:
    return zipped(take(state, OPTIONS, configuration or Configuration(), now))


def outcome(snapshot: Snapshot) -> tuple[dict[str, Any], list[str]]:
    decisions = decide(snapshot, Configuration())
    return answer(snapshot, decisions), [each.text for each in decisions.waiting]


def request(name: str, to: str, phase: str = "") -> BindRequest:
    return BindRequest(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=BindRequestSpec(podName=name, selectedNode=to),
        status=BindRequestStatus(phase=phase),
    )


def with_init_container(made: Pod, cpu: str, *, sidecar: bool) -> Pod:
    extra = Container(
        name="init",
        resources=ResourceRequirements(requests={"cpu": cpu}),
        restartPolicy="Always" if sidecar else None,
    )
    return replace(made, spec=replace(made.spec, initContainers=(extra,), overhead={"memory": "1Gi"}))


def bound_to_zone(made: Pod, zone: str) -> Pod:
    term = NodeSelectorTerm(matchExpressions=(NodeSelectorRequirement(key="zone", operator="In", values=(zone,)),))
    required = NodeSelector(nodeSelectorTerms=(term,))
    affinity = Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required))
    return replace(made, spec=replace(made.spec, affinity=affinity))


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    nodes = []
    for number, (gpus, zone, taint) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from("xy"), st.booleans()), min_size=1, max_size=5))
    ):
        made = node(f"n{number}", gpus=gpus, zone=zone)
        nodes.append(tainted(made, "special") if taint else made)
    queues = [queue("top", limit=draw(st.sampled_from([-1, 6, 12])))]
    queues += [queue(name, parent="top", quota=draw(st.integers(0, 4))) for name in "ab"]
    queues += [queue("lost", parent="nowhere"), queue("mad", quota=-5)]
    groups: list[PodGroup] = []
    pods: list[Pod] = []
    requests: list[BindRequest] = []
    kinds = st.tuples(
        st.integers(0, 4),
        st.integers(1, 4),
        st.integers(0, 3),
        st.sampled_from(["a", "b", "lost", "mad", "top"]),
        st.sampled_from(["", "high", "unknown"]),
        st.sampled_from(["plain", "tolerates", "selects", "affinity", "init", "sidecar", "gated", "subgroups"]),
    )
    for number, (less, size, gpus, name, priority, kind) in enumerate(draw(st.lists(kinds, max_size=7))):
        group = f"g{number}"
        subgroups = (SubGroup(name="s", minMember=max(0, size - less)),) if kind == "subgroups" else ()
        groups.append(
            pod_group(group, min_member=max(0, size - less), queue=name, priority=priority, subgroups=subgroups)
        )
        for index in range(size):
            builder = pod(f"{group}-{index}").gpu(gpus).cpu("500m").of_group(group, "s" if subgroups else "")
            builder = builder.tolerates("special") if kind == "tolerates" else builder
            builder = builder.only_on("zone", "x") if kind == "selects" else builder
            member = (builder.gated_by("gate") if kind == "gated" and index else builder).build()
            if kind == "affinity":
                member = bound_to_zone(member, "y")
            if kind in ("init", "sidecar"):
                member = with_init_container(member, "3", sidecar=kind == "sidecar")
            pods.append(member)
    held = st.tuples(st.integers(0, 5), st.integers(1, 3), st.sampled_from(["runs", "leaves", "hangs"]))
    for number, (row, gpus, fate) in enumerate(draw(st.lists(held, max_size=4))):
        builder = pod(f"r{number}").gpu(gpus).running_on(f"n{row % len(nodes)}")
        builder = builder if fate == "runs" else builder.being_deleted_at(NOW if fate == "leaves" else NOW - 3600)
        pods.append(builder.build())
    for each in pods[: draw(st.integers(0, 3))]:
        if not each.spec.nodeName:
            target = draw(st.sampled_from(["n0", "gone"]))
            requests.append(request(each.metadata.name, target, draw(st.sampled_from(["", "Failed"]))))
    return [*nodes, *queues, priority_class("high", 120), *groups, *pods, *requests]


@given(clusters(), st.integers(0, 3), st.booleans())
@settings(max_examples=120, deadline=None)
def test_the_same_is_decided_from_the_file_as_from_the_live_state(
    objects: Sequence[KubeObject], assumed: int, held: bool
) -> None:
    state = state_of(objects)
    waiting = decide(state.snapshot(NOW), Configuration()).binds
    for bind in waiting[:assumed]:  # decided, and not yet written
        state.own.assume_bind_request(request(bind.task.key.name, bind.node))
    for bind in waiting[assumed : assumed + held]:
        state.own.back_off(bind.task.key, bind.task.uid, NOW - 0.5)
    recorded = read(written(state))
    assert recorded.now == NOW
    assert outcome(recorded.snapshot(recorded.now)) == outcome(state.snapshot(NOW))


def test_a_pod_that_waits_after_a_failed_binding_waits_in_the_file_too() -> None:
    state = state_of([node("n"), queue("q"), pod_group("g"), *gang("g", 1)])
    state.own.back_off(ObjectKey("default", "g-0"), "uid-g-0", NOW)
    recorded = read(written(state, now=NOW + 0.25))
    assert recorded.now == NOW + 0.25
    assert not decide(recorded.snapshot(recorded.now), Configuration()).binds
    later = read(written(state, now=NOW + 2))
    assert decide(later.snapshot(present(later.now)), Configuration()).binds


def test_what_queues_used_is_in_the_file() -> None:
    state = state_of([node("n"), queue("q")])
    assert read(written(state)).usage == NO_USAGE
    usage = Usage({"q": (0.5, 0.25, 0.0)}, NOW, "builtin")
    state.put_usage(usage)
    recorded = read(written(state))
    assert recorded.usage == recorded.snapshot(NOW).usage == usage


def test_the_file_is_kais_one_with_every_list_and_all_that_was_configured() -> None:
    state = state_of([node("n"), queue("q"), pod_group("g"), *gang("g", 2), priority_class("p", 7)])
    configuration = Configuration(actions=("allocate", "reclaim"), plugins=(PluginChoice("waltz", {"a": "b"}),))
    data = zipped(take(state, StateOptions("mine", 30.0), configuration, NOW), {"serverVersion": {"major": "1"}})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["snapshot.json"]
        document = json.loads(archive.read("snapshot.json"))
    assert document["config"]["actions"] == "allocate, reclaim"
    assert document["config"]["tiers"] == [{"plugins": [{"name": "waltz", "arguments": {"a": "b"}}]}]
    assert document["schedulerParams"]["schedulerName"] == "mine"
    assert document["schedulerParams"]["stuckInReleasingThreshold"] == 30 * 10**9
    assert document["discovery"] == {"serverVersion": {"major": "1"}}
    objects = document["rawObjects"]
    assert set(objects) == set(LISTS)
    assert [(each["apiVersion"], each["kind"]) for each in objects["podGroups"]] == [
        ("scheduling.run.ai/v2alpha2", "PodGroup")
    ]
    assert count(data) == {
        "nodes": 1,
        "nodeResourceTopologies": 0,
        "priorityClasses": 1,
        "queues": 1,
        "podGroups": 1,
        "namespaces": 0,
        "configMaps": 0,
        "storageClasses": 0,
        "persistentVolumes": 0,
        "persistentVolumeClaims": 0,
        "topologies": 0,
        "csiStorageCapacities": 0,
        "csiDrivers": 0,
        "csiNodes": 0,
        "deviceClasses": 0,
        "deviceTaintRules": 0,
        "resourceSlices": 0,
        "resourceClaims": 0,
        "bindRequests": 0,
        "podDisruptionBudgets": 0,
        "pods": 2,
    }
    recorded = read(data)
    assert recorded.parameters.state_options() == StateOptions("mine", 30.0)
    assert recorded.configuration == configuration


def test_the_order_in_which_objects_came_is_not_in_the_file() -> None:
    objects = [node("n"), node("m"), queue("q"), pod_group("g"), *gang("g", 2)]
    assert written(state_of(objects)) == written(state_of(reversed(objects)))


SECRET = "hunter2"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def secretive_pod() -> Pod:
    """A pod that has something to hide wherever a pod can."""
    container = Container(
        name="main",
        image=f"{SECRET}.example.com/work",
        command=(SECRET,),
        args=(f"--password={SECRET}",),
        workingDir=SECRET,
        env=(
            EnvVar(name="PASSWORD", value=SECRET),
            EnvVar(name="MODE", valueFrom=EnvVarSource(configMapKeyRef=ConfigMapKeySelector(key="mode", name="map"))),
        ),
        envFrom=(
            EnvFromSource(configMapRef=ConfigMapEnvSource(name="whole-map")),
            EnvFromSource(prefix=SECRET, secretRef=SecretEnvSource(name=SECRET)),
        ),
        resources=ResourceRequirements(requests={"nvidia.com/gpu": "1"}),
        livenessProbe=Probe(exec=ExecAction(command=(SECRET,))),
        lifecycle=Lifecycle(preStop=LifecycleHandler(exec=ExecAction(command=(SECRET,)))),
    )
    volumes = (
        Volume(name="claim", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName="the-claim")),
        Volume(name="inline", csi=CSIVolumeSource(driver="d", volumeAttributes={"password": SECRET})),
        Volume(
            name="projected",
            projected=ProjectedVolumeSource(
                sources=(
                    VolumeProjection(configMap=ConfigMapProjection(name="projected-map")),
                    VolumeProjection(secret=SecretProjection(name=SECRET)),
                )
            ),
        ),
    )
    ended = ContainerState(terminated=ContainerStateTerminated(exitCode=1, message=SECRET))
    made = pod("p").of_group("g").build()
    return replace(
        made,
        metadata=replace(
            made.metadata,
            annotations={**made.metadata.annotations, LAST_APPLIED: SECRET},
            managedFields=(ManagedFieldsEntry(manager=SECRET),),
        ),
        spec=replace(made.spec, containers=(container,), volumes=volumes, hostname=SECRET, serviceAccountName=SECRET),
        status=PodStatus(
            phase="Pending",
            message=SECRET,
            containerStatuses=(
                ContainerStatus(
                    name="main", ready=False, restartCount=1, image=SECRET, imageID=SECRET, lastState=ended
                ),
            ),
        ),
    )


def secretive_storage() -> list[KubeObject]:
    """What the pod refers to, with something to hide as well."""
    meta = ObjectMeta(name="the-claim", namespace="default", annotations={"pv.kubernetes.io/bind-completed": "yes"})
    csi = CSIPersistentVolumeSource(driver="d", volumeHandle="h", volumeAttributes={"password": SECRET})
    claim = PersistentVolumeClaimSpec(volumeName="disk", storageClassName="slow")
    return [
        ConfigMap(metadata=ObjectMeta(name="map", namespace="default"), data={"password": SECRET}),
        ConfigMap(metadata=ObjectMeta(name="whole-map", namespace="default"), data={"password": SECRET}),
        PersistentVolumeClaim(metadata=meta, spec=claim),
        PersistentVolume(metadata=ObjectMeta(name="disk"), spec=PersistentVolumeSpec(csi=csi)),
        StorageClass(metadata=ObjectMeta(name="slow"), provisioner="d", parameters={"key": SECRET}),
    ]


def test_the_file_tells_no_secrets_of_a_pod_and_keeps_what_decides() -> None:
    state = state_of([node("n"), queue("q"), pod_group("g"), secretive_pod(), *secretive_storage()])
    assert len(decide(state.snapshot(NOW), Configuration()).binds) == 1
    data = written(state)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read("snapshot.json").decode()
    assert SECRET not in text
    for kept in ("the-claim", "map", "whole-map", "projected-map", "nvidia.com/gpu"):
        assert f'"{kept}"' in text
    assert len(decide(read(data).snapshot(NOW), Configuration()).binds) == 1


@pytest.mark.parametrize("name", LISTS)
def test_annotations_that_nobody_decides_by_are_left_out_of_every_kind(name: str) -> None:
    reported = {"example.com/token": SECRET, "user": SECRET, "kai.scheduler/top-owner-metadata": SECRET}
    kept = {"kai.scheduler/last-start-timestamp": "2025-01-01T00:00:00Z", "gpu-fraction": "0.5", "bosket.dev/x": "1"}
    kind, meta = LISTS[name].kind, ObjectMeta(name="a", annotations={**reported, **kept})
    made = replace(topology("a", "zone"), metadata=meta) if name == "topologies" else kind(metadata=meta)
    assert LISTS[name].redact(made).metadata.annotations == kept


def test_every_annotation_that_the_scheduler_reads_is_kept() -> None:
    """Found in its code: names of annotations in modules that decisions rest on, where they aren't written."""
    folder = Path(redaction.__file__).parents[2]
    files = [each for part in ("model", "snapshot", "framework", "plugins", "actions", "solver", "kernel")
             for each in (folder / "scheduler" / part).rglob("*.py") if each.name != "redaction.py"]  # fmt: skip
    files += [folder / "kube" / "volume.py", folder / "api" / "shared_gpu.py", folder / "api" / "device_claim.py"]
    read = {name for file in files for name in re.findall(r"\b[A-Z_]+_ANNOTATION\b", file.read_text())}
    known = {**vars(keys), **vars(volume)}
    assert len(read) > 10
    assert {name for name in read if not redaction.is_kept(known[name])} == set()


def test_manifests_that_kubectl_keeps_in_annotations_are_left_out_of_every_kind() -> None:
    noted = replace(queue("q"), metadata=ObjectMeta(name="q", annotations={LAST_APPLIED: SECRET}))
    with zipfile.ZipFile(io.BytesIO(written(state_of([noted])))) as archive:
        assert SECRET.encode() not in archive.read("snapshot.json")


#: Looked at, and found to be of no use to a decision.
LEFT_OUT_OF_SPEC = frozenset(
    {
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "evictionResponders",
        "hostAliases",
        "hostIPC",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "readinessGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
    }
)
LEFT_OUT_OF_STATUS = frozenset(
    {
        "containerStatuses",
        "ephemeralContainerStatuses",
        "hostIP",
        "hostIPs",
        "initContainerStatuses",
        "message",
        "observedGeneration",
        "podIP",
        "podIPs",
        "volumeHealth",
    }
)


@pytest.mark.parametrize(
    ("struct", "kept", "left_out"),
    [
        (PodSpec, {*redaction.SPEC_FIELDS, "containers", "initContainers", "volumes"}, LEFT_OUT_OF_SPEC),
        (PodStatus, redaction.STATUS_FIELDS, LEFT_OUT_OF_STATUS),
    ],
)
def test_of_every_field_of_a_pod_it_is_decided_whether_it_is_written(
    struct: type[msgspec.Struct], kept: set[str] | tuple[str, ...], left_out: frozenset[str]
) -> None:
    """Who adds a field to the Struct is asked here whether a decision may rest on it."""
    known = {field.name for field in fields(struct)}
    assert known == {*kept, *left_out}


def test_what_earlier_cycles_promised_is_in_the_file_too() -> None:
    """Evictions under way, refusals, claims and who took whose place: without them something else is decided."""
    state = state_of(
        [
            node("n1", gpus=2),
            queue("q"),
            priority_class("low", 10),
            priority_class("high", 90),
            pod_group("low", priority="low"),
            pod("low-0").of_group("low").gpu(1).running_on("n1").build(),
            pod_group("lucky", priority="low"),
            pod("lucky-0").of_group("lucky").gpu(1).running_on("n1").build(),
            pod_group("high", priority="high"),
            *gang("high", 1),
        ]
    )
    state.own.refuse_eviction(ObjectKey("default", "lucky-0"), "uid-lucky-0", NOW, "PodDisruptionBudget default/keep")
    decisions = decide(state.snapshot(NOW), Configuration())
    (eviction,) = decisions.lasting_evictions
    state.own.assume_eviction(eviction.task.key, eviction.task.uid, NOW)
    state.remember(decisions, NOW)
    snapshot = read(written(state)).snapshot(NOW)
    assert eviction.task.key.name == "low-0"
    assert snapshot.nominations == state.snapshot(NOW).nominations != ()
    assert snapshot.preempted_by == state.snapshot(NOW).preempted_by != {}
    assert dict(snapshot.disruptions.protected) == {ObjectKey("default", "lucky-0"): "PodDisruptionBudget default/keep"}
    assert outcome(snapshot) == outcome(state.snapshot(NOW))
    assert [each.task.key.name for each in decide(snapshot, Configuration()).pipelined] == ["high-0"]
