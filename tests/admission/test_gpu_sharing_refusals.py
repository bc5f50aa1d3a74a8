"""Wrong requests for GPU shares, and the sentences that refuse them."""

from __future__ import annotations

import pytest

from bosket.api.core import Pod
from bosket.runtime.webhook.verdict import sentence
from bosket.services.admission.options import PodRules
from bosket.services.admission.pod import validate, validate_update
from tests.admission.pods import SHARING, container, pod

LONG = "0" * 200


@pytest.mark.parametrize(
    "fraction",
    [
        *("NaN", "nan", "0", "0.0", "-0.5", "1", "1.0", "1.5", "1e-400", "inf", "-inf", "Infinity", "1e400", "0x1p-2"),
        "",
        " ",
        " 0.5",
        "0.5 ",
        "0,5",
        "50%",
        "500m",
        "half",
        "1_0e-2",
        "٠.٥",
        "0.5.1",
        "5e",
        "--0.5",
        "+0.5",
        "1e-0001",
        "0.5\n",
        LONG,
    ],
)
def test_a_fraction_is_a_number_above_0_and_below_1(fraction: str) -> None:
    (refusal,) = validate(pod({"gpu-fraction": fraction}), SHARING)
    assert refusal.field == "metadata.annotations[gpu-fraction]"
    assert "must be a number above 0 and below 1, such as 0.5" in refusal.message
    assert len(refusal.message) < 250


@pytest.mark.parametrize("fraction", ["0.5", ".5", "5e-1", "5E-1", "0.999", "1e-9", "0.50", "00.5", "1e-300"])
def test_a_fraction_may_be_written_in_several_ways(fraction: str) -> None:
    assert validate(pod({"gpu-fraction": fraction}), SHARING) == ()


@pytest.mark.parametrize("key", ["gpu-memory", "gpu-fraction-num-devices"])
@pytest.mark.parametrize(
    "count", ["0", "00", "-1", "+1", "1.5", "1e3", "", " 1", "1 ", "4Gi", "NaN", "1_000", "٣", "9" * 30, str(10**9 + 1)]
)
def test_memory_and_devices_are_whole_numbers(key: str, count: str) -> None:
    asked = {"gpu-memory": "4096", key: count}
    (refusal,) = validate(pod(asked), SHARING)
    assert refusal.field == f"metadata.annotations[{key}]"
    assert "must be a whole number of" in refusal.message


@pytest.mark.parametrize("count", ["1", "10000", "007"])
def test_good_amounts(count: str) -> None:
    assert validate(pod({"gpu-memory": count}), SHARING) == ()
    assert validate(pod({"gpu-fraction": "0.5", "gpu-fraction-num-devices": count}), SHARING) == ()


def test_there_may_be_more_memory_than_devices() -> None:
    assert validate(pod({"gpu-memory": str(10**9)}), SHARING) == ()
    assert validate(pod({"gpu-memory": "1", "gpu-fraction-num-devices": "10001"}), SHARING) != ()


WHOLE = {"nvidia.com/gpu": "1"}
MIG = {"nvidia.com/mig-1g.5gb": 1}
BAD: dict[str, tuple[Pod, str, str]] = {
    "both fraction and memory": (
        pod({"gpu-fraction": "0.5", "gpu-memory": "4096"}),
        "metadata.annotations[gpu-memory]",
        "keep one",
    ),
    "a fraction with whole GPUs": (
        pod({"gpu-fraction": "0.5"}, containers=(container(limits=WHOLE),)),
        "spec.containers[0].resources",
        'container "main" asks for nvidia.com/gpu while annotation gpu-fraction asks for a part of a GPU',
    ),
    "memory with whole GPUs": (
        pod({"gpu-memory": "1"}, containers=(container(limits=WHOLE),)),
        "spec.containers[0].resources",
        "while annotation gpu-memory asks",
    ),
    "a fraction with whole GPUs in a second container": (
        pod({"gpu-fraction": "0.5"}, containers=(container(), container("side", limits=WHOLE))),
        "spec.containers[1].resources",
        'container "side" asks for nvidia.com/gpu',
    ),
    "a fraction with whole GPUs in an init container": (
        pod({"gpu-fraction": "0.5"}, initContainers=(container("warm-up", limits=WHOLE),)),
        "spec.initContainers[0].resources",
        "leave one out",
    ),
    "a fraction with AMD's GPUs": (
        pod({"gpu-fraction": "0.5"}, containers=(container(limits={"amd.com/gpu": "1"}),)),
        "spec.containers[0].resources",
        "asks for amd.com/gpu",
    ),
    "a fraction with a MIG instance": (
        pod({"gpu-fraction": "0.5"}, containers=(container(limits=MIG),)),
        "spec.containers[0].resources",
        "asks for nvidia.com/mig-1g.5gb",
    ),
    "an unknown container": (
        pod({"gpu-fraction": "0.5", "gpu-fraction-container-name": "mian"}, initContainers=(container("warm-up"),)),
        "metadata.annotations[gpu-fraction-container-name]",
        'is "mian", which is no container of the pod: it must be one of "warm-up", "main"',
    ),
    "devices without an amount": (
        pod({"gpu-fraction-num-devices": "2"}),
        "metadata.annotations[gpu-fraction-num-devices]",
        "it needs gpu-fraction or gpu-memory beside it",
    ),
    "MPS without sharing": (
        pod({"mps": "true"}, containers=(container(limits=WHOLE),)),
        "metadata.annotations[mps]",
        "it needs gpu-fraction or gpu-memory beside it",
    ),
    "a name for the maps that is no name": (
        pod({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "Not A Name"}),
        "metadata.annotations[runai/shared-gpu-configmap]",
        "leave it out",
    ),
    "a name for the maps that is too long for a volume": (
        pod({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "x" * 60}),
        "metadata.annotations[runai/shared-gpu-configmap]",
        "too long",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_is_refused_with_the_field_and_what_is_right(case: str) -> None:
    asked, field, words = BAD[case]
    (refusal,) = validate(asked, SHARING)
    assert refusal.field == field
    assert words in refusal.message


def test_everything_that_is_wrong_is_said_at_once() -> None:
    refusals = validate(pod({"gpu-fraction": "2", "gpu-memory": "0", "gpu-fraction-container-name": "x"}), SHARING)
    assert [each.field for each in refusals] == [
        "metadata.annotations[gpu-fraction]",
        "metadata.annotations[gpu-memory]",
        "metadata.annotations[gpu-memory]",
        "metadata.annotations[gpu-fraction-container-name]",
    ]
    assert sentence(refusals).count("; annotation") == 3


GOOD: dict[str, Pod] = {
    "no GPUs": pod(),
    "whole GPUs": pod(containers=(container(limits=WHOLE),)),
    "a MIG instance": pod(containers=(container(limits=MIG),)),
    "a fraction": pod({"gpu-fraction": "0.5"}),
    "a fraction of several devices": pod({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}),
    "memory of several devices": pod({"gpu-memory": "4096", "gpu-fraction-num-devices": "2"}),
    "a fraction with MPS": pod({"gpu-fraction": "0.5", "mps": "true"}),
    "MPS that is switched off": pod({"mps": "false"}),
    "a named container": pod({"gpu-fraction": "0.5", "gpu-fraction-container-name": "main"}),
    "an init container": pod(
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": "warm-up"}, initContainers=(container("warm-up"),)
    ),
    "a container's name without a fraction": pod({"gpu-fraction-container-name": "nobody"}),
    "another scheduler's": pod({"gpu-fraction": "2"}, scheduler="default-scheduler"),
}


@pytest.mark.parametrize("case", GOOD)
def test_is_not_refused(case: str) -> None:
    assert validate(GOOD[case], SHARING) == ()


@pytest.mark.parametrize("annotations", [{"gpu-fraction": "0.5"}, {"gpu-memory": "4096"}])
def test_where_sharing_is_switched_off_it_is_refused(annotations: dict[str, str]) -> None:
    (refusal,) = validate(pod(annotations), PodRules())
    assert "GPU sharing is switched off in this cluster" in refusal.message
    assert "ask for whole GPUs with the limit nvidia.com/gpu" in refusal.message
    assert validate(pod(containers=(container(limits=WHOLE),)), PodRules()) == ()


def test_a_pod_that_got_in_under_other_rules_can_still_be_changed() -> None:
    """Otherwise a finalizer could not be taken away from it, and it would stay for ever."""
    old = pod({"gpu-fraction": "0.5"})
    relabelled = pod({"gpu-fraction": "0.5"}, meta={"labels": {"runai-gpu-group": "g"}})
    assert validate_update(old, relabelled, PodRules()) == ()


def test_a_change_for_the_worse_is_refused() -> None:
    (refusal,) = validate_update(pod({"gpu-fraction": "0.5"}), pod({"gpu-fraction": "1.5"}), SHARING)
    assert refusal.field == "metadata.annotations[gpu-fraction]"
