"""With block-nvidia-visible-devices, nobody helps himself to GPUs."""

from __future__ import annotations

import pytest

from bosket.api.core import EnvVar, EnvVarSource, ObjectFieldSelector
from bosket.services.admission.options import PodRules
from bosket.services.admission.pod import validate
from tests.admission.pods import container, pod

BLOCKING = PodRules(gpu_sharing_enabled=True, block_nvidia_visible_devices=True)


def devices(value: str) -> EnvVar:
    return EnvVar(name="NVIDIA_VISIBLE_DEVICES", value=value)


@pytest.mark.parametrize("value", ["all", "0", "GPU-1234", "Void", "none,0"])
@pytest.mark.parametrize("limits", [{}, {"nvidia.com/gpu": "1"}])
def test_other_values_are_refused(value: str, limits: dict[str, str]) -> None:
    (refusal,) = validate(pod(containers=(container(limits=limits, env=(devices(value),)),)), BLOCKING)
    assert refusal.field == "spec.containers[0].env"
    assert f'sets NVIDIA_VISIBLE_DEVICES to "{value}"' in refusal.message
    assert 'it may only be "void" or "none"' in refusal.message


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_those_that_hide_everything_are_not(value: str) -> None:
    assert validate(pod(containers=(container(env=(devices(value),)),)), BLOCKING) == ()


def test_a_value_from_elsewhere_is_refused_in_init_containers_too() -> None:
    reference = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath="metadata.name"))
    variable = EnvVar(name="NVIDIA_VISIBLE_DEVICES", valueFrom=reference)
    (refusal,) = validate(pod(initContainers=(container("init", env=(variable,)),)), BLOCKING)
    assert refusal.field == "spec.initContainers[0].env"
    assert "from elsewhere" in refusal.message


def test_the_container_that_shares_a_gpu_is_left_out_and_the_others_are_not() -> None:
    asked = pod(
        {"gpu-fraction": "0.5"}, containers=(container(env=(devices("all"),)), container("b", env=(devices("all"),)))
    )
    (refusal,) = validate(asked, BLOCKING)
    assert refusal.field == "spec.containers[1].env"


def test_it_is_off_by_default() -> None:
    assert validate(pod(containers=(container(env=(devices("all"),)),)), PodRules()) == ()
