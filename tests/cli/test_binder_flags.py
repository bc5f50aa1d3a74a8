"""The binder's flags: KAI's, and what is said about those that make no sense."""

from __future__ import annotations

from dataclasses import fields

import pytest

from bosket.api.core import ResourceRequirements, SecurityContext
from bosket.api.kai import PluginConfig
from bosket.cli.binder_flags import BinderFlags, binder_options
from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.workload_flags import WorkloadFlags
from bosket.services.binder import Options, ReservationOptions


def test_the_defaults_of_the_command_line_are_those_of_the_binder() -> None:
    assert binder_options(BinderFlags(), WorkloadFlags(), ["binder"]) == {}
    # Any flag leads through the whole of them.
    options = binder_options(BinderFlags(max_concurrent_binds_per_node=3), WorkloadFlags(), ["binder"])["binder"]
    assert options == Options(max_concurrent_binds_per_node=3)


def test_every_flag_arrives() -> None:
    flags = BinderFlags(
        resource_reservation_namespace="ns",
        resource_reservation_service_account="sa",
        resource_reservation_app_label="app",
        resource_reservation_pod_image="img",
        resource_reservation_allocation_timeout=5.0,
        resource_reservation_pod_resources='{"requests": {"cpu": "10m"}}',
        resource_reservation_pod_security_context='{"runAsUser": 1}',
        resource_reservation_container_security_context='{"runAsUser": 2}',
        runtime_class_name="nvidia",
        fake_gpu_nodes=True,
        max_concurrent_reconciles=20,
        max_concurrent_binds_per_node=4,
        rate_limiter_base_delay=2.0,
        rate_limiter_max_delay=30.0,
        volume_binding_timeout_seconds=60,
        plugins='{"hamicore": {"enabled": true}}',
    )
    default = BinderFlags()
    assert all(getattr(flags, each.name) != getattr(default, each.name) for each in fields(flags))
    options = binder_options(flags, WorkloadFlags(scale_adjust_namespace="scale", scheduler_name="mine"), ["binder"])[
        "binder"
    ]
    assert isinstance(options, Options)
    reservation = options.reservation
    assert isinstance(reservation, ReservationOptions)
    assert (reservation.namespace, reservation.service_account, reservation.app_label) == ("ns", "sa", "app")
    assert (reservation.pod_image, reservation.allocation_timeout_seconds) == ("img", 5.0)
    assert reservation.pod_resources == ResourceRequirements(requests={"cpu": "10m"})
    assert reservation.pod_security_context is not None
    assert reservation.pod_security_context.runAsUser == 1
    assert reservation.container_security_context == SecurityContext(runAsUser=2)
    assert (reservation.runtime_class_name, reservation.fake_gpu_nodes) == ("nvidia", True)
    assert (options.scale_adjust_namespace, options.max_concurrent_reconciles) == ("scale", 20)
    assert options.scheduler_name == "mine"
    assert options.max_concurrent_binds_per_node == 4
    assert (options.rate_limiter_base_delay_seconds, options.rate_limiter_max_delay_seconds) == (2.0, 30.0)
    assert options.volume_binding_timeout_seconds == 60
    assert options.plugins == {"hamicore": PluginConfig(enabled=True)}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (BinderFlags(plugins="{"), "--plugins {: "),
        (BinderFlags(plugins='{"nothing": {}}'), '--plugins: there is no plugin "nothing"; there are: '),
        (
            BinderFlags(plugins='{"gpusharing": {"arguments": {"cdi": "true"}}}'),
            'plugin gpusharing has no argument "cdi"; it has: cdiEnabled',
        ),
        (
            BinderFlags(plugins='{"gpusharing": {"arguments": {"cdiEnabled": "yes"}}}'),
            'cdiEnabled is "yes", expected "true" or "false"',
        ),
        (
            BinderFlags(plugins='{"volumebinding": {"arguments": {"bindTimeoutSeconds": "soon"}}}'),
            'bindTimeoutSeconds is "soon", expected seconds, 1 or more',
        ),
        (BinderFlags(resource_reservation_pod_resources="[]"), "--resource-reservation-pod-resources []: "),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(flags: BinderFlags, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        binder_options(flags, WorkloadFlags(), ["binder"])
    assert words in str(refusal.value)


def test_flags_of_a_service_that_does_not_run_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "scheduler", "--fake-gpu-nodes"]) == 2
    assert "--fake-gpu-nodes: binder is not among the services that run" in capsys.readouterr().err
