"""`bosket run node-scale-adjuster` takes KAI's flags."""

from __future__ import annotations

from dataclasses import fields

import pytest

from bosket.cli.main import main
from bosket.cli.node_scale_adjuster_flags import NodeScaleAdjusterFlags, node_scale_adjuster_options
from bosket.cli.output import UsageError
from bosket.cli.workload_flags import WorkloadFlags
from bosket.services.node_scale import Options

NAME = "node-scale-adjuster"


def test_flags_that_are_left_out_change_nothing() -> None:
    assert node_scale_adjuster_options(NodeScaleAdjusterFlags(), WorkloadFlags(), ["scheduler"]) == {}


def test_every_flag_arrives() -> None:
    flags = NodeScaleAdjusterFlags("image", "app", "account", 0.5)
    default = NodeScaleAdjusterFlags()
    assert all(getattr(flags, each.name) != getattr(default, each.name) for each in fields(flags))
    expected = Options(
        scheduler_name="mine",
        scale_adjust_namespace="there",
        scaling_pod_image="image",
        scaling_pod_app_label="app",
        scaling_pod_service_account="account",
        gpu_memory_to_fraction_ratio=0.5,
    )
    assert node_scale_adjuster_options(flags, WorkloadFlags("mine", scale_adjust_namespace="there"), [NAME]) == {
        NAME: expected
    }


def test_defaults_of_flags_are_those_of_options() -> None:
    flags = NodeScaleAdjusterFlags()
    assert all(getattr(Options(), each.name) == getattr(flags, each.name) for each in fields(flags))


def test_flags_of_a_service_that_does_not_run_are_refused() -> None:
    with pytest.raises(UsageError, match="--scaling-pod-image: node-scale-adjuster is not among"):
        node_scale_adjuster_options(NodeScaleAdjusterFlags("image"), WorkloadFlags(), ["binder"])


def test_the_program_of_a_scaling_pod_is_done_at_once() -> None:
    assert main(["run", "scaling-pod"]) == 0
