"""Grove's flags: one file for all of its services."""

from __future__ import annotations

from pathlib import Path

import pytest

from bosket.cli.grove_flags import GroveFlags, grove_options
from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.grove import Options as OperatorOptions
from bosket.grove_admission import Options as AdmissionOptions
from bosket.grove_backends import Options as BackendOptions

TEXT = """
topologyAwareScheduling: {enabled: true}
controllers: {podGang: {concurrentSyncs: 7}}
scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}
"""


def test_all_services_get_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    services = ["scheduler", "grove-operator", "grove-admission", "grove-backends", "backend-kai"]
    options = grove_options(GroveFlags(config=file), services)
    assert set(options) == set(services) - {"scheduler"}
    operator = options["grove-operator"]
    assert isinstance(operator, OperatorOptions)
    assert operator.configuration.scheduler.defaultProfileName == "kai-scheduler"
    admission = options["grove-admission"]
    assert isinstance(admission, AdmissionOptions)
    assert admission.configuration.topologyAwareScheduling.enabled
    assert options["grove-backends"] == BackendOptions(
        default_scheduler_name="kai-scheduler", max_concurrent_reconciles=7
    )
    assert options["backend-kai"] == BackendOptions(
        only="kai", default_scheduler_name="kai-scheduler", max_concurrent_reconciles=7
    )


def test_without_flags_everything_is_as_by_default() -> None:
    assert grove_options(GroveFlags(), ["grove-admission"]) == {}


def test_the_image_of_init_containers_may_be_named() -> None:
    options = grove_options(GroveFlags(grove_init_container_image="initc:7"), ["grove-operator"])
    assert options["grove-operator"] == OperatorOptions(init_container_image="initc:7")


def test_webhooks_may_be_reached_by_a_url() -> None:
    options = grove_options(GroveFlags(grove_webhook_url="https://127.0.0.1:2750"), ["grove-admission"])
    assert options["grove-admission"] == AdmissionOptions(url="https://127.0.0.1:2750")


@pytest.mark.parametrize(
    ("flags", "services", "message"),
    [
        (GroveFlags(grove_webhook_url="http://x"), ["grove-admission"], "not a URL such as https"),
        (GroveFlags(grove_webhook_url="https://x"), ["scheduler"], "grove-admission is not among the services"),
        (GroveFlags(config=Path("config.yaml")), ["scheduler"], "none of Grove's services is among those that run"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: GroveFlags, services: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        grove_options(flags, services)


def test_a_file_that_is_wrong_is_told_with_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{logLevel: loud}")
    assert main(["run", "grove-admission", "--config", str(file)]) == 2
    assert "config.yaml: logLevel: Unsupported value" in capsys.readouterr().err


def test_settings_that_flags_decide_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{logLevel: debug, server: {metrics: {port: 1}}, leaderElection: {enabled: true}}")
    grove_options(GroveFlags(config=file), ["grove-operator"])
    said = capsys.readouterr().err
    assert "logLevel has no effect; what decides is --log-level" in said
    assert "server.metrics has no effect; what decides is --listen" in said
    assert "leaderElection has no effect; what decides is --leader-elect" in said
    assert "logFormat" not in said
