"""What a pod that shares a GPU is given."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from bosket.api.core import ConfigMapVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, Volume
from bosket.api.object import OwnerReference
from bosket.api.shared_gpu import map_names, sharing_container
from bosket.services.admission.options import PodRules
from bosket.services.admission.pod import mutate
from tests.admission.pods import EVERYTHING, SHARING, container, pod

HALF = {"gpu-fraction": "0.5"}
PREFIX = "runai/shared-gpu-configmap"


def mutated(before: Pod, rules: PodRules = SHARING) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(mutate(before, rules, lambda: "abcdefg")))
    return document


def variable(name: str, config_map: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"key": name, "name": config_map}}}


def test_a_pod_gets_annotation_variables_volume_and_runtime_class() -> None:
    document = mutated(pod(HALF))
    assert document["metadata"]["annotations"] == {"gpu-fraction": "0.5", PREFIX: "train-abcdefg-shared-gpu"}
    name = "train-abcdefg-shared-gpu-0"
    (main,) = document["spec"]["containers"]
    assert main["env"] == [
        variable("NVIDIA_VISIBLE_DEVICES", name),
        variable("RUNAI_NUM_OF_GPUS", name),
        variable("GPU_PORTION", name),
    ]
    assert main["envFrom"] == [{"configMapRef": {"name": f"{name}-evar", "optional": False}}]
    assert "volumeMounts" not in main
    assert document["spec"]["volumes"] == [{"name": f"{name}-vol", "configMap": {"name": name}}]
    assert document["spec"]["runtimeClassName"] == "nvidia"


def test_the_maps_have_the_names_that_the_binder_will_look_for() -> None:
    made = mutate(pod(HALF), SHARING, lambda: "abcdefg")
    sharing = sharing_container(made)
    assert sharing is not None
    assert map_names(made, sharing) == ("train-abcdefg-shared-gpu-0", "train-abcdefg-shared-gpu-0-evar")


def test_an_init_container_may_be_the_one() -> None:
    asked = pod(
        {"gpu-memory": "4096", "gpu-fraction-container-name": "load"},
        initContainers=(container("first"), container("load")),
    )
    document = mutated(asked)
    first, load = document["spec"]["initContainers"]
    assert load["envFrom"][0]["configMapRef"]["name"] == "train-abcdefg-shared-gpu-i1-evar"
    assert "env" not in first
    assert "env" not in document["spec"]["containers"][0]
    assert document["spec"]["volumes"][0]["name"] == "train-abcdefg-shared-gpu-i1-vol"


@pytest.mark.parametrize(
    ("meta", "prefix"),
    [
        ({"name": "train"}, "train-abcdefg-shared-gpu"),
        ({"name": "", "generateName": "train-"}, "train-abcdefg-shared-gpu"),
        ({"name": ""}, "pod-abcdefg-shared-gpu"),
        ({"name": "a" * 60}, f"{'a' * 33}-abcdefg-shared-gpu"),
        ({"name": f"{'a' * 32}.{'b' * 20}"}, f"{'a' * 32}-abcdefg-shared-gpu"),
        ({"name": "my.pod"}, "my.pod-abcdefg-shared-gpu"),
    ],
)
def test_the_maps_are_called_after_the_pod(meta: dict[str, str], prefix: str) -> None:
    document = mutated(pod(HALF, meta=meta))
    assert document["metadata"]["annotations"][PREFIX] == prefix
    volume = document["spec"]["volumes"][0]["name"]
    assert len(volume) <= 63
    assert "." not in volume


@pytest.mark.parametrize(
    ("owner", "prefix"), [("job-1", "job-1-abcdefg-shared-gpu"), ("Odd:Name.", "odd-name-abcdefg-shared-gpu")]
)
def test_or_after_its_owner(owner: str, prefix: str) -> None:
    reference = OwnerReference(apiVersion="batch/v1", kind="Job", name=owner, uid="u")
    document = mutated(pod(HALF, meta={"name": "job-1-x7f", "ownerReferences": (reference,)}))
    assert document["metadata"]["annotations"][PREFIX] == prefix


def test_variables_of_the_same_name_give_way() -> None:
    mine = (
        EnvVar(name="GPU_PORTION", value="1"),
        EnvVar(name="MINE", value="x"),
        EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="all"),
    )
    (main,) = mutated(pod(HALF, containers=(container(env=mine),)))["spec"]["containers"]
    assert [each["name"] for each in main["env"]] == [
        "MINE",
        "NVIDIA_VISIBLE_DEVICES",
        "RUNAI_NUM_OF_GPUS",
        "GPU_PORTION",
    ]
    assert all("value" not in each for each in main["env"][1:])


def test_a_volume_of_the_same_name_gives_way() -> None:
    other = Volume(name="train-abcdefg-shared-gpu-0-vol", configMap=ConfigMapVolumeSource(name="other"))
    (volume,) = mutated(pod(HALF, volumes=(other,)))["spec"]["volumes"]
    assert volume["configMap"]["name"] == "train-abcdefg-shared-gpu-0"


def test_a_second_time_changes_nothing() -> None:
    numbers = count()
    once = mutate(pod(HALF), EVERYTHING, lambda: f"random{next(numbers)}")
    # The API server fills in defaults between two calls.
    (volume,) = once.spec.volumes
    assert volume.configMap is not None
    defaulted = msgspec.structs.replace(
        volume, configMap=ConfigMapVolumeSource(name=volume.configMap.name, defaultMode=420)
    )
    once = msgspec.structs.replace(once, spec=msgspec.structs.replace(once.spec, volumes=(defaulted,)))
    assert mutate(once, EVERYTHING, lambda: f"random{next(numbers)}") == once
    assert next(numbers) == 1


def test_a_second_time_leaves_what_others_added_in_its_place() -> None:
    once = mutate(pod(HALF), SHARING)
    main = once.spec.containers[0]
    longer = msgspec.structs.replace(main, env=(*main.env, EnvVar(name="LATER", value="x")))
    again = msgspec.structs.replace(once, spec=msgspec.structs.replace(once.spec, containers=(longer,)))
    assert mutate(again, SHARING) == again


def test_a_runtime_class_of_ones_own_stays() -> None:
    assert mutated(pod(HALF, runtimeClassName="mine"))["spec"]["runtimeClassName"] == "mine"
    assert mutated(pod(HALF, runtimeClassName=""))["spec"]["runtimeClassName"] == "nvidia"


def test_an_empty_runtime_class_switches_that_off() -> None:
    rules = PodRules(gpu_sharing_enabled=True, gpu_fraction_runtime_class_name="")
    assert "runtimeClassName" not in mutated(pod(HALF), rules)["spec"]


def test_hami_core_gets_the_memory_limit_if_there_is_one() -> None:
    rules = PodRules(gpu_sharing_enabled=True, hami_core_enabled=True)
    (main,) = mutated(pod(HALF), rules)["spec"]["containers"]
    assert main["env"][-1] == {
        "name": "CUDA_DEVICE_MEMORY_LIMIT",
        "valueFrom": {
            "configMapKeyRef": {
                "key": "CUDA_DEVICE_MEMORY_LIMIT",
                "name": "train-abcdefg-shared-gpu-0",
                "optional": True,
            }
        },
    }


@pytest.mark.parametrize(
    "left_alone",
    [
        pod(),
        pod(containers=(container(limits={"nvidia.com/gpu": "1"}),)),
        pod(HALF, scheduler="default-scheduler"),
        pod({"gpu-fraction": "2"}),
        pod({**HALF, "gpu-fraction-container-name": "nobody"}),
        msgspec.structs.replace(pod(HALF), spec=msgspec.structs.replace(pod().spec, containers=())),
    ],
)
def test_other_pods_and_refused_ones_are_left_alone(left_alone: Pod) -> None:
    sharing_only = PodRules(gpu_sharing_enabled=True, gpu_fraction_runtime_class_name="")
    assert mutate(left_alone, sharing_only) is left_alone


def test_device_access_blinds_containers_without_gpus() -> None:
    rules = PodRules(gpu_sharing_enabled=True, block_nvidia_visible_devices=True)
    reference = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath="metadata.name"))
    asked = pod(
        HALF,
        containers=(
            container(env=(EnvVar(name="NVIDIA_VISIBLE_DEVICES", valueFrom=reference),)),
            container("none", env=(EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="none"), EnvVar(name="B", value="b"))),
        ),
        initContainers=(container("warm-up"),),
    )
    document = mutated(asked, rules)
    void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    sharing, none = document["spec"]["containers"]
    assert sharing["env"][0] == variable("NVIDIA_VISIBLE_DEVICES", "train-abcdefg-shared-gpu-0")
    assert none["env"] == [void, {"name": "B", "value": "b"}]
    assert document["spec"]["initContainers"][0]["env"] == [void]


@pytest.mark.parametrize(
    ("limits", "sees"),
    [
        ({"nvidia.com/gpu": "1"}, True),
        ({"nvidia.com/mig-1g.5gb": 1}, True),
        ({"nvidia.com/gpu": "0"}, False),
        ({"cpu": "1"}, False),
    ],
)
def test_device_access_leaves_containers_with_gpus_alone(limits: dict[str, Any], sees: bool) -> None:
    rules = PodRules(block_nvidia_visible_devices=True)
    (main,) = mutated(pod(containers=(container(limits=limits),)), rules)["spec"]["containers"]
    assert ("env" not in main) == sees
