"""Pods that can't be placed whatever node it is: what they refer to is missing, or they ask for too much."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bosket.api.core import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ProjectedVolumeSource,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from bosket.api.keys import SHARED_GPU_CONFIG_MAP_ANNOTATION
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, drop_named, placements, reasons, state_of


def one(*objects: KubeObject) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def member(name: str = "g-0") -> PodBuilder:
    return pod(name).cpu("1").of_group("g")


def config_map(name: str, namespace: str = "default") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))


def by_variable(name: str, optional: bool | None = None) -> PodBuilder:
    source = EnvVarSource(configMapKeyRef=ConfigMapKeySelector(key="k", name=name, optional=optional))
    return member().with_container(env=(EnvVar(name="A", valueFrom=source),))


def by_environment(name: str, optional: bool | None = None) -> PodBuilder:
    return member().with_container(
        envFrom=(EnvFromSource(configMapRef=ConfigMapEnvSource(name=name, optional=optional)),)
    )


def mounted(volume: Volume) -> PodBuilder:
    return member().with_spec(volumes=(volume,)).with_container(volumeMounts=(VolumeMount(name="v", mountPath="/v"),))


def by_volume(name: str, optional: bool | None = None) -> PodBuilder:
    return mounted(Volume(name="v", configMap=ConfigMapVolumeSource(name=name, optional=optional)))


def by_projection(name: str, optional: bool | None = None) -> PodBuilder:
    source = VolumeProjection(configMap=ConfigMapProjection(name=name, optional=optional))
    return mounted(Volume(name="v", projected=ProjectedVolumeSource(sources=(source,))))


# ConfigMaps


@pytest.mark.parametrize("refer", [by_variable, by_environment, by_volume, by_projection])
def test_a_config_map_that_is_missing_holds_the_pod_back(refer: Callable[..., Any]) -> None:
    wanting = refer("settings").build()
    reported = reasons(one(node("n"), wanting))["g"]
    expected = (
        "Scheduling conditions were not met for pod default/g-0:\nConfigMap: Missing required configmaps: [settings].\n"
    )
    assert expected in reported
    assert placements(one(node("n"), config_map("settings"), wanting)) == {"g-0": "n"}
    assert placements(one(node("n"), config_map("settings", "other"), wanting)) == {}
    assert placements(one(node("n"), refer("settings", optional=True).build())) == {"g-0": "n"}


def test_a_volume_that_nobody_mounts_needs_nothing() -> None:
    volume = Volume(name="v", configMap=ConfigMapVolumeSource(name="settings"))
    assert placements(one(node("n"), member().with_spec(volumes=(volume,)).build())) == {"g-0": "n"}


def test_what_is_made_for_shared_gpus_when_the_pod_is_bound_need_not_be_there_before() -> None:
    wanting = by_environment("gpu-abc-0")
    annotated = {**wanting.annotations, SHARED_GPU_CONFIG_MAP_ANNOTATION: "gpu-abc"}
    assert placements(one(node("n"), replace(wanting, annotations=annotated).build())) == {"g-0": "n"}


def test_all_that_is_missing_is_named() -> None:
    wanting = (
        by_variable("b").with_container(envFrom=(EnvFromSource(configMapRef=ConfigMapEnvSource(name="a")),)).build()
    )
    assert "Missing required configmaps: [a b]" in reasons(one(node("n"), wanting))["g"]


def test_a_config_map_may_come_and_go() -> None:
    state = state_of([queue("q"), pod_group("g"), node("n"), by_variable("settings").build()])
    before = state.snapshot(NOW)
    assert placements(decide(before, Configuration())) == {}
    state.put(config_map("settings"))
    after = state.snapshot(NOW)
    assert placements(decide(after, Configuration())) == {"g-0": "n"}
    state.put(config_map("settings"))
    assert state.snapshot(NOW) is after, "only whether it exists matters"
    drop_named(state, ConfigMap, "settings")
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    assert placements(decide(before, Configuration())) == {}, "a snapshot keeps what it has"


# Requests


@pytest.mark.parametrize(
    ("wanting", "expected"),
    [
        (
            pod("g-0").gpu(9),
            "The pod default/g-0 requires GPU: 9, CPU: 0 (cores), memory: 0 (GB), pods: 1. "
            "Max GPU resources available in a single node in the default node-pool is topped at 8.",
        ),
        (
            pod("g-0").cpu("65500m"),
            "The pod default/g-0 requires GPU: 0, CPU: 65.5 (cores), memory: 0 (GB), pods: 1. "
            "Max CPU resources available in a single node in the default node-pool is topped at 64 cores.",
        ),
        (
            pod("g-0").memory("1Ti"),
            "The pod default/g-0 requires GPU: 0, CPU: 0 (cores), memory: 1099.511 (GB), pods: 1. "
            "Max memory resources available in a single node in the default node-pool is topped at 549.755 GB.",
        ),
        (
            pod("g-0").asks("example.com/fpga", "2"),
            "The pod default/g-0 requires GPU: 0, CPU: 0 (cores), memory: 0 (GB), pods: 1, example.com/fpga: 2. "
            "No node in the default node-pool has example.com/fpga resources.",
        ),
    ],
)
def test_a_request_that_is_larger_than_every_node_is_told_with_numbers(wanting: PodBuilder, expected: str) -> None:
    reported = reasons(one(node("n1"), node("n2", gpus=4), wanting.of_group("g").build()))["g"]
    assert f"MaxNodePoolResources: {expected}" in reported


def test_a_request_that_a_full_node_could_satisfy_is_not_too_large() -> None:
    full = pod("full").gpu(8).running_on("n1").build()
    reported = reasons(one(node("n1"), full, pod("g-0").gpu(8).of_group("g").build()))["g"]
    assert "didn't have enough resources: GPUs" in reported


def test_all_objections_are_told_at_once() -> None:
    wanting = by_variable("settings").gpu(9).build()
    reported = reasons(one(node("n"), wanting))["g"]
    assert "MaxNodePoolResources: The pod default/g-0 requires GPU: 9" in reported
    assert "ConfigMap: Missing required configmaps: [settings]." in reported
