"""Grove's flags: one file for all of its services."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.apiserver.server.api_server import ApiServer
from bosket.cli.grove_flags import GroveFlags, grove_options, read_configuration
from bosket.cli.grove_process import ProcessSettings
from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.grove.admission import Options as AdmissionOptions
from bosket.grove.backends import Options as BackendOptions
from bosket.grove.operator import Options as OperatorOptions
from bosket.grove.operator.service import GroveOperator
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.health import Address
from bosket.runtime.leader import LeaseTiming
from bosket.runtime.service import Environment

NAMESPACE = "grove-system"
TEXT = """
topologyAwareScheduling: {enabled: true}
controllers: {podGang: {concurrentSyncs: 7}}
scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}
"""


def options_of(flags: GroveFlags, services: list[str]) -> dict[str, object]:
    found = read_configuration(flags, services, NAMESPACE)
    return {} if found is None else grove_options(flags, services, found.configuration)


def process_of(tmp_path: Path, text: str) -> ProcessSettings:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    found = read_configuration(GroveFlags(config=file), ["grove-operator"], NAMESPACE)
    assert found is not None
    return found.process


def test_all_services_get_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    services = ["scheduler", "grove-operator", "grove-admission", "grove-backends", "backend-kai"]
    options = options_of(GroveFlags(config=file), services)
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
    assert options_of(GroveFlags(), ["grove-admission"]) == {}


def test_the_image_of_init_containers_may_be_named() -> None:
    options = options_of(GroveFlags(grove_init_container_image="initc:7"), ["grove-operator"])
    assert options["grove-operator"] == OperatorOptions(init_container_image="initc:7")


def test_webhooks_may_be_reached_by_a_url() -> None:
    options = options_of(GroveFlags(grove_webhook_url="https://127.0.0.1:2750"), ["grove-admission"])
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
        options_of(flags, services)


def test_a_file_that_is_wrong_is_told_with_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("{logLevel: loud}")
    assert main(["run", "grove-admission", "--config", str(file)]) == 2
    assert "config.yaml: logLevel: Unsupported value" in capsys.readouterr().err


def test_the_program_of_init_containers_may_be_named() -> None:
    options = options_of(GroveFlags(grove_init_container_command="bosket run grove-initc"), ["grove-operator"])
    assert options["grove-operator"] == OperatorOptions(init_container_command=("bosket", "run", "grove-initc"))


def test_a_file_that_is_silent_says_nothing_about_the_process(tmp_path: Path) -> None:
    """Grove's own defaults (JSON, its ports, no leases) are for its pods."""
    assert process_of(tmp_path, TEXT) == ProcessSettings()


def test_logs_leases_addresses_and_profiles_are_as_the_file_says(tmp_path: Path) -> None:
    text = """
    logLevel: debug
    logFormat: json
    leaderElection: {enabled: true, leaseDuration: 20.5s, renewDeadline: 15s, retryPeriod: 3s}
    server: {metrics: {bindAddress: 0.0.0.0, port: 9445}, healthProbes: {port: 9444}}
    debugging: {enableProfiling: true, pprofBindPort: 6060}
    """
    assert process_of(tmp_path, text) == ProcessSettings(
        log_format="json",
        log_level="debug",
        leader_elect=True,
        lease_timing=LeaseTiming(21, 15.0, 3.0),
        listen=(Address("0.0.0.0", 9445), Address("127.0.0.1", 9444)),
        profiler_port=6060,
    )


def test_a_file_may_do_without_leases(tmp_path: Path) -> None:
    assert process_of(tmp_path, "{leaderElection: {enabled: false}}") == ProcessSettings(leader_elect=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{runtimeClientConnection: {qps: 50}}", "runtimeClientConnection has no effect: calls aren't held back"),
        ("{leaderElection: {resourceLock: endpoints}}", "leaderElection.resourceLock has no effect"),
        (
            "{leaderElection: {resourceNamespace: x}}",
            "resourceNamespace has no effect: leases are in --namespace grove",
        ),
        ("{debugging: {pprofBindHost: 0.0.0.0}}", "debugging.pprofBindHost has no effect"),
        (
            "{scheduler: {profiles: [{name: kai-scheduler, config: {a: 1}}]}}",
            "scheduler.profiles[0].config has no effect",
        ),
    ],
)
def test_settings_without_effect_are_told_of(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process_of(tmp_path, text)
    assert told in capsys.readouterr().err


def test_the_operators_lease_is_called_as_in_the_file(tmp_path: Path) -> None:
    """By default as Grove's own operator calls it, so that never both work."""
    assert OperatorConfiguration().leaderElection.resourceName == "grove-operator-leader-election"
    file = tmp_path / "config.yaml"
    file.write_text("{leaderElection: {resourceName: mine}}")
    options = options_of(GroveFlags(config=file), ["grove-operator"])["grove-operator"]
    assert isinstance(options, OperatorOptions)
    clock = SystemClock()
    client = Client(ApiServer(clock=clock).transport())
    events = EventRecorder(client, clock, "t")
    environment = Environment(client, Informers(client), clock, events, CollectorRegistry())
    assert GroveOperator(environment, options).lease_name == "mine"
