"""`bosket run podgrouper` takes KAI's flags."""

from __future__ import annotations

import pytest

from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.podgrouper_flags import PodGrouperFlags, podgrouper_options
from bosket.podgrouper import Options


def test_flags_that_are_left_out_change_nothing() -> None:
    assert podgrouper_options(PodGrouperFlags(), ["scheduler"]) == {}


def test_flags_become_options() -> None:
    flags = PodGrouperFlags(
        search_legacy_pg=False,
        knative_gang_schedule=False,
        generic_karta_fallback=False,
        default_priorities_configmap_name="defaults",
        default_priorities_configmap_namespace="kai-scheduler",
        pod_label_selector="a=b,c=",
        namespace_label_selector="team=x",
        queue_label_key="queue",
        nodepool_label_key="",
        grouper_concurrency=3,
    )
    expected = Options(
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
    assert podgrouper_options(flags, ["podgrouper"]) == {"podgrouper": expected}


@pytest.mark.parametrize(
    ("flags", "services", "sentence"),
    [
        (PodGrouperFlags(queue_label_key="q"), ["binder"], "--queue-label-key: podgrouper is not among the services"),
        (PodGrouperFlags(default_priorities_configmap_name="x"), ["podgrouper"], "one of them alone says nothing"),
        (PodGrouperFlags(pod_label_selector="a"), ["podgrouper"], '--pod-label-selector "a": expected key=value'),
        (PodGrouperFlags(namespace_label_selector="=a"), ["podgrouper"], "--namespace-label-selector"),
    ],
)
def test_flags_that_mean_nothing_are_refused_by_name(
    flags: PodGrouperFlags, services: list[str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        podgrouper_options(flags, services)


def test_the_command_line_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "binder", "--no-knative-gang-schedule"]) == 2
    assert "--knative-gang-schedule: podgrouper is not among the services that run" in capsys.readouterr().err
