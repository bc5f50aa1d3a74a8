"""The operator's configuration file: Grove's defaults, and errors that name the field."""

from __future__ import annotations

import pytest

from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.grove.operator_configuration_file import InvalidOperatorConfiguration, parse_operator_configuration


def test_what_is_left_out_is_as_in_grove() -> None:
    assert parse_operator_configuration("{}") == OperatorConfiguration()
    webhooks = OperatorConfiguration().server.webhooks
    assert (webhooks.port, webhooks.secretName, webhooks.certProvisionMode) == (
        2750,
        "grove-webhook-server-cert",
        "auto",
    )


def test_what_says_nothing_is_left_out() -> None:
    text = """
    apiVersion: operator.config.grove.io/v1alpha1
    kind: OperatorConfiguration
    runtimeClientConnection: {qps: 0, burst: 0, contentType: ""}
    leaderElection: {enabled: true, leaseDuration: "", resourceName: null}
    server: {metrics: {bindAddress: 127.0.0.1, port: 0}}
    """
    configuration = parse_operator_configuration(text)
    assert (configuration.clientConnection.qps, configuration.clientConnection.burst) == (100, 120)
    assert configuration.leaderElection.leaseDuration == "15s"
    assert (configuration.server.metrics.bindAddress, configuration.server.metrics.port) == ("127.0.0.1", 2752)


@pytest.mark.parametrize(
    ("scheduler", "names", "default"),
    [
        ("{}", ("default-scheduler",), "default-scheduler"),
        ("{defaultProfileName: kai-scheduler}", ("default-scheduler",), "default-scheduler"),
        ("{profiles: [{name: kai-scheduler}]}", ("kai-scheduler", "default-scheduler"), "default-scheduler"),
        (
            "{profiles: [{name: volcano}], defaultProfileName: volcano}",
            ("volcano", "default-scheduler"),
            "volcano",
        ),
        (
            "{profiles: [{name: default-scheduler}, {name: lpx-scheduler}]}",
            ("default-scheduler", "lpx-scheduler"),
            "default-scheduler",
        ),
    ],
)
def test_the_kubernetes_scheduler_is_always_enabled(scheduler: str, names: tuple[str, ...], default: str) -> None:
    configuration = parse_operator_configuration(f"scheduler: {scheduler}")
    assert configuration.scheduler.names == names
    assert configuration.scheduler.defaultProfileName == default


def test_what_a_backend_reads_is_left_as_it_is() -> None:
    text = "scheduler: {profiles: [{name: kai-scheduler, config: {queue: '', depth: 0}}]}"
    assert parse_operator_configuration(text).scheduler.profiles[0].config == {"queue": "", "depth": 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the document must be a map, it is list"),
        ("kind: Pod", 'kind: Unsupported value: "Pod"'),
        ("logLevel: loud", 'logLevel: Unsupported value: "loud": supported values: "debug", "info", "error"'),
        ("logFormat: xml", 'logFormat: Unsupported value: "xml"'),
        ("server: {webhooks: {certProvisionMode: x}}", 'server.webhooks.certProvisionMode: Unsupported value: "x"'),
        ("server: {webhooks: {port: x}}", "server.webhooks.port: expected int, got str"),
        ("server: {metrics: {port: 70000}}", "server.metrics.port: Invalid value: 70000"),
        ("runtimeClientConnection: {burst: -1}", "runtimeClientConnection.burst: Invalid value: -1"),
        ("controllers: {podGang: {concurrentSyncs: 0}}", "controllers.podGang.concurrentSyncs: Invalid value: 0"),
        ("scheduler: {profiles: [{name: x}]}", 'scheduler.profiles[0].name: Unsupported value: "x"'),
        ("scheduler: {profiles: [{name: ' '}]}", "scheduler.profiles[0].name: Required value"),
        (
            "scheduler: {profiles: [{name: volcano}, {name: volcano}]}",
            'scheduler.profiles[1].name: Duplicate value: "volcano"',
        ),
        (
            "scheduler: {profiles: [{name: volcano}], defaultProfileName: kai-scheduler}",
            'scheduler.defaultProfileName: Invalid value: "kai-scheduler": default profile must be one of',
        ),
        (
            "leaderElection: {enabled: true, leaseDuration: 10s}",
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than renewDeadline',
        ),
        (
            "leaderElection: {enabled: true, retryPeriod: 10s}",
            'leaderElection.renewDeadline: Invalid value: "10s": must be greater than retryPeriod',
        ),
        ("leaderElection: {enabled: true, retryPeriod: -2s}", 'leaderElection.retryPeriod: Invalid value: "-2s"'),
        ("leaderElection: {enabled: true, leaseDuration: 0s}", 'leaderElection.leaseDuration: Invalid value: "0s"'),
        ("leaderElection: {enabled: true, renewDeadline: 0s}", 'leaderElection.renewDeadline: Invalid value: "0s"'),
        ("leaderElection: {enabled: true, retryPeriod: 0s}", 'leaderElection.retryPeriod: Invalid value: "0s"'),
        ("leaderElection: {enabled: true, leaseDuration: 5s}", "must be greater than renewDeadline"),
        ("controllers: {podCliqueSet: {concurrentSyncs: -1}}", "controllers.podCliqueSet.concurrentSyncs: Invalid"),
        ("controllers: {podClique: {concurrentSyncs: -1}}", "controllers.podClique.concurrentSyncs: Invalid value"),
        (
            "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: nobodys}",
            'scheduler.defaultProfileName: Invalid value: "nobodys"',
        ),
        ("leaderElection: {enabled: true, retryPeriod: soon}", "leaderElection.retryPeriod: Invalid value"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidOperatorConfiguration) as caught:
        parse_operator_configuration(text)
    assert message in str(caught.value)


def test_leases_are_not_looked_at_where_there_are_none() -> None:
    parse_operator_configuration("leaderElection: {enabled: false, leaseDuration: 1s}")


def test_several_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidOperatorConfiguration) as caught:
        parse_operator_configuration("{scheduler: {profiles: [{name: x}]}, runtimeClientConnection: {burst: -1}}")
    assert "profiles[0]" in str(caught.value)
    assert "burst" in str(caught.value)


def test_keys_without_effect_are_reported() -> None:
    said: list[str] = []
    parse_operator_configuration(
        "{server: {webhook: {}}, scheduler: {profiles: [{name: volcano, x: 1}]}}", report=said.append
    )
    assert [each.split()[0] for each in said] == ["server.webhook", "scheduler.profiles[0].x"]


def test_names_of_registered_backends_are_allowed() -> None:
    text = "scheduler: {profiles: [{name: of-somebody-else}]}"
    configuration = parse_operator_configuration(text, schedulers=("of-somebody-else", "default-scheduler"))
    assert configuration.scheduler.names == ("of-somebody-else", "default-scheduler")
