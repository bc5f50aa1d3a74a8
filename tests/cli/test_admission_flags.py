"""`bosket run admission` takes KAI's flags."""

from __future__ import annotations

import pytest

from bosket.cli.admission_flags import AdmissionFlags, admission_options
from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.workload_flags import WorkloadFlags
from bosket.services.admission import Options, PodRules


def test_flags_that_are_left_out_change_nothing() -> None:
    assert admission_options(AdmissionFlags(), WorkloadFlags(), ["scheduler"]) == {}


def test_flags_become_options() -> None:
    flags = AdmissionFlags(
        gpu_sharing_enabled=True,
        hami_core_enabled=True,
        block_nvidia_visible_devices=True,
        gpu_fraction_runtime_class_name="",
        enable_quota_validation=True,
        webhook_addr=0,
        webhook_host="::",
        webhook_url="https://10.0.0.7:9443",
    )
    rules = PodRules(
        gpu_sharing_enabled=True,
        hami_core_enabled=True,
        block_nvidia_visible_devices=True,
        gpu_fraction_runtime_class_name="",
    )
    expected = Options(pods=rules, enable_quota_validation=True, host="::", port=0, url="https://10.0.0.7:9443")
    assert admission_options(flags, WorkloadFlags(), ["admission"]) == {"admission": expected}


@pytest.mark.parametrize(
    ("new", "old", "effective"), [(None, None, "nvidia"), (None, "old", "old"), ("new", "old", "new"), ("", "old", "")]
)
def test_the_older_name_of_the_runtime_class_counts_where_the_newer_is_left_out(
    new: str | None, old: str | None, effective: str
) -> None:
    flags = AdmissionFlags(
        gpu_sharing_enabled=True, gpu_fraction_runtime_class_name=new, gpu_pod_runtime_class_name=old
    )
    options = admission_options(flags, WorkloadFlags(), ["admission"])["admission"]
    assert isinstance(options, Options)
    assert options.pods.gpu_fraction_runtime_class_name == effective


def test_flags_for_a_service_that_does_not_run_make_no_sense() -> None:
    with pytest.raises(UsageError, match="--gpu-sharing-enabled: admission is not among the services that run"):
        admission_options(AdmissionFlags(gpu_sharing_enabled=True), WorkloadFlags(), ["scheduler"])


@pytest.mark.parametrize("url", ["http://10.0.0.7:9443", "10.0.0.7", "https://", "https://[", "https://x/path"])
def test_a_webhook_url_is_https_without_a_path(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "admission", "--webhook-url", url]) == 2
    assert capsys.readouterr().err == f"bosket: --webhook-url {url}: not a URL such as https://10.0.0.7:9443\n"
