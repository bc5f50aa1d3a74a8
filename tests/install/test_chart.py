"""The chart and `bosket manifests`: one source, the same objects. What Helm makes of it: tests/e2e/test_helm.py."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from bosket.api.grove.operator_configuration_file import operator_configuration_from, parse_document
from bosket.api.kai.config import ConfigSpec
from bosket.api.kai.shard import SchedulingShardSpec
from bosket.cli.grove_process import ProcessSettings, process_settings
from bosket.cli.main import main
from bosket.grove.admission.registration import configurations as grove_configurations
from bosket.install.chart import chart_files, manifests
from bosket.install.policy_part import ASKED_ABOUT
from bosket.install.values import InvalidValues, default_values, parse_set
from bosket.runtime.webhook.registration import Reach
from bosket.services.admission import Options
from bosket.services.admission.registration import configurations
from tests.install.rendering import CASES, CHART, NAMESPACE, by_identity, rendered, snapshot_file, values_file

REMEDY = "run `python -m tests.install chart`"


def test_the_chart_on_disk_is_the_one_that_the_code_makes() -> None:
    found = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert found == chart_files(), REMEDY


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_they_were(case: str) -> None:
    assert rendered(case) == snapshot_file(case).read_text(), f"look at what differs; if that is meant, {REMEDY}"


def test_nothing_is_a_hook_and_nothing_is_looked_up() -> None:
    for path, text in chart_files().items():
        assert "helm.sh/hook" not in text, path
        assert "lookup" not in text, path


@pytest.mark.parametrize("case", CASES)
def test_config_and_shard_have_no_fields_that_their_kinds_dont_know(case: str) -> None:
    """Definitions are made from the same Structs: what a Struct drops, an API server would."""
    structs = {"Config": ConfigSpec, "SchedulingShard": SchedulingShardSpec}
    for (kind, _, _), each in by_identity(rendered(case)).items():
        if kind in structs:
            known = msgspec.json.decode(msgspec.json.encode(msgspec.convert(each["spec"], structs[kind])))
            assert said(known) == said(each["spec"])


def said(tree: object) -> object:
    """Without what is empty: Structs leave that out."""
    if isinstance(tree, dict):
        return {name: said(each) for name, each in tree.items() if each not in ({}, [], "")}
    return [said(each) for each in tree] if isinstance(tree, list) else tree


def test_leaders_are_elected_among_two_replicas_by_default() -> None:
    (operator,) = [each for each in manifests({}, NAMESPACE) if each["kind"] == "Deployment"]
    assert operator["spec"]["replicas"] == 2
    assert "--no-leader-elect" not in operator["spec"]["template"]["spec"]["containers"][0]["args"]


def test_replicas_elect_a_leader_whatever_is_said() -> None:
    def arguments(replicas: int) -> list[str]:
        values = {"global": {"leaderElection": False}, "operator": {"replicaCount": replicas}}
        (operator,) = [each for each in manifests(values, NAMESPACE) if each["kind"] == "Deployment"]
        return list(operator["spec"]["template"]["spec"]["containers"][0]["args"])

    assert "--no-leader-elect" not in arguments(2)
    assert "--no-leader-elect" in arguments(1)


def test_every_value_is_used_in_a_template() -> None:
    """An option that does nothing would be a lie."""
    used = {match for text in chart_files().values() for match in re.findall(r"\.Values\.([A-Za-z.]+)", text)}

    def unused(path: str, default: object) -> list[str]:
        if path in used:
            return []
        if isinstance(default, dict) and default:
            return [each for name, inner in default.items() for each in unused(f"{path}.{name}".lstrip("."), inner)]
        return [path]

    assert unused("", default_values()) == []


def test_a_misspelt_value_is_named() -> None:
    with pytest.raises(InvalidValues, match=r"values: global: Additional properties are not allowed \('gpuSharring'"):
        manifests({"global": {"gpuSharring": True}}, NAMESPACE)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"scheduler": {"placementStrategy": "tight"}}, 'scheduler.placementStrategy: "tight" is not one of'),
        ({"operator": {"replicaCount": "two"}}, 'operator.replicaCount: "two" is not of type "integer"'),
        ({"admission": {"ports": {"webhookPort": 70000}}}, "admission.ports.webhookPort: 70000 is greater than"),
        ({"binder": None}, '"binder" is a required property'),
        ({"scheduler": {"plugins": {"mine": {"prio": 1}}}}, "scheduler.plugins.mine: Additional properties"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(values: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidValues, match=re.escape(told)):
        manifests(values, NAMESPACE)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("global.tag=1.2", {"global": {"tag": "1.2"}}),
        ("operator.replicaCount=3", {"operator": {"replicaCount": 3}}),
        ("global.gpuSharing=true", {"global": {"gpuSharing": True}}),
        ("operator.resources=null", {"operator": {"resources": None}}),
        ("global.tag=007", {"global": {"tag": "007"}}),
        (r"global.nodeSelector.example\.com/role=gpu", {"global": {"nodeSelector": {"example.com/role": "gpu"}}}),
        ("global.registry=a=b", {"global": {"registry": "a=b"}}),
    ],
)
def test_a_setting_means_what_it_means_to_helm(text: str, values: dict[str, object]) -> None:
    assert parse_set(text) == values


@pytest.mark.parametrize(
    "text", ["global.tag", "=x", "a..b=1", "global.imagePullSecrets[0].name=x", "a=1,b=2", "a={x}"]
)
def test_a_setting_that_cant_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidValues, match=f"--set {re.escape(text)}: "):
        parse_set(text)


def test_the_command_prints_what_the_function_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("global: {tag: one, registry: example.com}\n")
    second.write_text("global: {tag: two}\n")
    flags = [f"--values={first}", f"--values={second}", "--set=operator.replicaCount=1", "--namespace=here"]
    assert main(["manifests", *flags, "--skip-crds", "--create-namespace"]) == 0
    found = by_identity(capsys.readouterr().out)
    assert ("Namespace", "", "here") in found
    operator = found["Deployment", "here", "kai-operator"]
    assert operator["spec"]["replicas"] == 1
    assert operator["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/bosket:two"


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("- a list\n")
    assert main(["manifests", "--values", str(file)]) == 1
    assert f"bosket: {file}: is a list, not a map of values" in capsys.readouterr().err


def test_definitions_come_first() -> None:
    kinds = [each["kind"] for each in manifests({}, NAMESPACE)]
    assert kinds.index("Namespace") > max(n for n, kind in enumerate(kinds) if kind == "CustomResourceDefinition")


def test_values_files_of_the_cases_are_different() -> None:
    assert len({yaml.dump(yaml.safe_load(values_file(case).read_text())) for case in CASES}) == len(CASES)


def test_without_grove_nothing_of_it_is_there() -> None:
    names = [each["metadata"]["name"] for each in manifests({}, NAMESPACE, definitions=False)]
    assert not [name for name in names if name.startswith("grove-") or "podcliqueset" in name]


@pytest.mark.parametrize("together", [True, False])
def test_each_of_groves_deployments_has_an_account_with_roles(together: bool) -> None:
    found = manifests({"grove": {"enabled": True, "backends": {"together": together}}}, NAMESPACE, definitions=False)
    deployed = {
        each["spec"]["template"]["spec"]["serviceAccountName"] for each in found if each["kind"] == "Deployment"
    }
    backends = {"grove-backends"} if together else {"grove-backend-default", "grove-backend-kai"}
    assert deployed == {"kai-operator", "grove-admission", "grove-operator", *backends}
    accounts = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"}
    bound = {each["subjects"][0]["name"] for each in found if each["kind"] == "ClusterRoleBinding"}
    assert {name for name in accounts | bound if name.startswith("grove-")} == deployed - {"kai-operator"}
    assert deployed <= accounts & bound


def test_groves_configuration_has_an_effect_in_all_it_says() -> None:
    """And lets Bosket's own services, and Kubernetes' controllers, change what the operator made."""
    said: list[str] = []
    (config,) = [each for each in manifests({"grove": {"enabled": True}}, NAMESPACE) if each["kind"] == "ConfigMap"]
    document = parse_document(config["data"]["config.yaml"])
    configuration = operator_configuration_from(document, report=said.append)
    assert process_settings(configuration, document, NAMESPACE, said.append) == ProcessSettings()
    assert said == []
    exempt = configuration.authorizer.exemptServiceAccountUserNames
    services = {name.removeprefix(f"system:serviceaccount:{NAMESPACE}:") for name in exempt}
    assert services >= {"binder", "grove-backends", "pod-grouper", "scheduler", "system:kube-controller-manager"}
    assert not services & {"queue-controller", "podgroup-controller", "grove-admission", "kai-operator"}


def test_policies_know_every_kind_that_webhooks_are_asked_about() -> None:
    reach = Reach(NAMESPACE, "service", "", 443)
    registered = {
        "admission": configurations(Options(access_control=True), reach, b"pem"),
        "grove-admission": grove_configurations(reach, b"pem", authorizer=True),
    }
    for account, found in registered.items():
        rules = [rule for each in found for webhook in each.webhooks for rule in webhook.rules]
        assert {resource for rule in rules for resource in rule.resources} <= set(ASKED_ABOUT[account])
