"""`bosket run podgrouper` takes KAI's flags."""

from __future__ import annotations

import pytest

from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.podgrouper_flags import PodGrouperFlags, podgrouper_options
from bosket.cli.workload_flags import WorkloadFlags
from bosket.services.podgrouper import Options


def test_flags_that_are_left_out_change_nothing() -> None:
    assert podgrouper_options(PodGrouperFlags(), WorkloadFlags(), ["scheduler"]) == {}


def test_flags_become_options() -> None:
    flags = PodGrouperFlags(
        search_legacy_pg=False,
        knative_gang_schedule=False,
        generic_karta_fallback=False,
        default_priorities_configmap_name="defaults",
        default_priorities_configmap_namespace="kai-scheduler",
        grouper_concurrency=3,
    )
    workloads = WorkloadFlags(
        scheduler_name="mine",
        pod_label_selector="a=b,c=",
        namespace_label_selector="team=x",
        queue_label_key="queue",
        nodepool_label_key="",
    )
    expected = Options(
        scheduler_name="mine",
        search_legacy_groups=False,
        knative_gang_schedule=False,
        karta_fallback=False,
        default_priorities_configmap_name="defaults",
        default_priorities_configmap_namespace="kai-scheduler",
        pod_label_selector={"a": "b", "c": ""},
        namespace_label_selector={"team": "x"},
        queue_label_key="queue",
        node_pool_label_key="",
        max_concurrent_reconciles=3,
    )
    assert podgrouper_options(flags, workloads, ["podgrouper"]) == {"podgrouper": expected}


@pytest.mark.parametrize(
    ("flags", "workloads", "sentence"),
    [
        (PodGrouperFlags(default_priorities_configmap_name="x"), WorkloadFlags(), "one of them alone says nothing"),
        (PodGrouperFlags(), WorkloadFlags(pod_label_selector="a"), '--pod-label-selector "a": expected key=value'),
        (PodGrouperFlags(), WorkloadFlags(namespace_label_selector="=a"), "--namespace-label-selector"),
    ],
)
def test_flags_that_mean_nothing_are_refused_by_name(
    flags: PodGrouperFlags, workloads: WorkloadFlags, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        podgrouper_options(flags, workloads, ["podgrouper"])


def test_flags_of_services_that_do_not_run_are_refused() -> None:
    with pytest.raises(UsageError, match="--grouper-concurrency: podgrouper is not among the services that run"):
        podgrouper_options(PodGrouperFlags(grouper_concurrency=3), WorkloadFlags(), ["binder"])
    with pytest.raises(UsageError, match="--queue-label-key: admission or podgrouper is not among the services"):
        WorkloadFlags(queue_label_key="q").check(["binder"])
    WorkloadFlags(queue_label_key="q").check(["binder", "admission"])


def test_the_command_line_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "binder", "--no-knative-gang-schedule"]) == 2
    assert "--knative-gang-schedule: podgrouper is not among the services that run" in capsys.readouterr().err
