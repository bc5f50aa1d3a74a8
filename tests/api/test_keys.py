"""Labels, annotations and names are ones that Kubernetes accepts, and KAI's spelling is kept."""

from __future__ import annotations

import re

import pytest

from bosket.api import keys

NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
KEYS = {name: value for name, value in vars(keys).items() if name.endswith(("_LABEL", "_ANNOTATION"))}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_a_qualified_name(name: str) -> None:
    prefix, _, local = KEYS[name].rpartition("/")
    assert NAME.fullmatch(local)
    assert not prefix or PREFIX.fullmatch(prefix)


def test_no_two_labels_and_no_two_annotations_are_the_same() -> None:
    for suffix in ("_LABEL", "_ANNOTATION"):
        values = [value for name, value in KEYS.items() if name.endswith(suffix)]
        assert len(values) == len(set(values))


def test_the_keys_that_every_workload_uses_are_spelt_as_kai_spells_them() -> None:
    assert keys.SCHEDULER_NAME == "kai-scheduler"
    assert keys.QUEUE_LABEL == "kai.scheduler/queue"
    assert keys.NODE_POOL_LABEL == "kai.scheduler/node-pool"
    assert keys.POD_GROUP_ANNOTATION == "pod-group-name"
    assert keys.SUBGROUP_LABEL == "kai.scheduler/subgroup-name"
    assert keys.GPU_FRACTION_ANNOTATION == "gpu-fraction"
    assert keys.GPU_GROUP_LABEL == "runai-gpu-group"


def test_a_gpu_group_label_has_room_for_a_uuid() -> None:
    uuid = "6a1c0c0e-5f0b-4d0c-9f0e-0123456789ab"
    prefix, _, local = f"{keys.GPU_GROUP_LABEL_PREFIX}{uuid}".rpartition("/")
    assert PREFIX.fullmatch(prefix)
    assert NAME.fullmatch(local)
