"""Pods that name a RuntimeClass get its overhead and its place, or are refused in kube-apiserver's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import PODS, World, pod

KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
    "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
}


@pytest.fixture
async def kata(world: World) -> World:
    await world.ok("POST", "/apis/node.k8s.io/v1/runtimeclasses", KATA)
    return world


async def test_a_pod_gets_what_its_runtime_class_says(kata: World) -> None:
    spec = (await kata.create_pod(runtimeClassName="kata", nodeSelector={"zone": "a"}))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert spec["nodeSelector"] == {"zone": "a", "runtime": "kata"}
    assert "kata" in {each["key"] for each in spec["tolerations"]}


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({"runtimeClassName": "gvisor"}, 'pod rejected: RuntimeClass "gvisor" not found'),
        (
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"runtime": "runc"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; pod.spec.nodeSelector[runtime] = runc",
        ),
    ],
)
async def test_a_pod_that_contradicts_its_runtime_class_is_refused(
    kata: World, spec: dict[str, Any], refusal: str
) -> None:
    status = await kata.refused(403, "POST", PODS, pod("a", **spec))
    assert status["message"] == f'pods "a" is forbidden: {refusal}'


async def test_an_overhead_that_amounts_to_the_same_is_no_contradiction(kata: World) -> None:
    await kata.create_pod(runtimeClassName="kata", overhead={"cpu": "0.25", "memory": "120Mi"})
