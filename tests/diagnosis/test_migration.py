"""A cluster that runs KAI: what stays, what changes, what needs to be done, and in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Node
from bosket.api.kai import PodGroup, Queue, SubGroup
from bosket.api.object import KubeObject
from bosket.cli.main import main
from bosket.testing.build import node, pod, pod_group, queue, topology
from bosket.tools.doctor.bundle import bundle_of
from bosket.tools.doctor.collect import KINDS
from bosket.tools.doctor.files import read_files
from bosket.tools.migrate import Outlook, plan_migration
from tests.diagnosis.installed import definitions, deployment, edited, installed

HERE = Path(__file__).parent
FILES = tuple(HERE / name for name in ("kai_cluster.yaml", "kai_webhooks.yaml", "kueue_topology.yaml"))
#: What becomes of the cluster in these files: outlook, object, field.
EXPECTED = {
    ("needs action", "Deployment kai-scheduler/kai-operator", "spec.replicas"),
    ("needs action", "Deployment kai-scheduler/kai-scheduler-default", "spec.replicas"),
    ("needs action", "Config kai-config", "spec.admission.service.image"),
    ("needs action", "SchedulingShard default", "spec.plugins.our-go-plugin"),
    ("needs action", "SchedulingShard default", "spec.args.schedul-period"),
    ("needs action", "Kueue Topology racks", ""),
    ("needs action", "1 BindRequest", "status.phase"),
    ("changes", "Deployment kai-scheduler/binder", ""),
    ("changes", "Lease kai-scheduler/2ad35f9c.kai.scheduler", ""),
    ("changes", "ValidatingWebhookConfiguration kai-queue-validation-v2", ""),
    ("changes", "Config kai-config", "spec.podGrouper.service.image"),
    ("changes", "Config kai-config", "spec.scheduler.GOGC"),
    ("changes", "SchedulingShard default", "spec.args.mig-worker-node-label-key"),
    ("changes", "SchedulingShard default", "spec.goMemLimitRatio"),
    ("changes", "SchedulingShard default", "spec.usageDBConfig.usageParams.windowType"),
    ("changes", "ConfigMap kai-scheduler/kai-scheduler-default", "data[config.yaml]"),
    ("changes", "PodGroup ml/pg-train", "spec.minSubGroup"),
    ("changes", "1 PodGroup", "status"),
    ("changes", "1 Pod", "spec.topologySpreadConstraints"),
    ("changes", "evictions", ""),
    ("changes", "PodDisruptionBudget ml/train", ""),
    ("keep", "1 Pod", ""),
}


def told(objects: Iterable[KubeObject]) -> set[tuple[str, str, str]]:
    return {(str(each.outlook), each.object, each.field) for each in plan_migration(bundle_of(objects, KINDS)).items}


def test_a_cluster_as_kais_chart_makes_it() -> None:
    plan = plan_migration(read_files(FILES))
    # The one queue's parent comes with the chart, and isn't in the file.
    queues = {("changes", "Queue ml-team", "spec.parentQueue")}
    assert {(str(each.outlook), each.object, each.field) for each in plan.items} == EXPECTED | queues
    assert plan.kai_version == "v0.17.1"
    assert all(bool(each.action) == (each.outlook is Outlook.ACTION) for each in plan.items)


def test_the_steps_come_in_an_order_in_which_nothing_is_lost() -> None:
    plan = plan_migration(read_files(FILES))
    titles = [step.title for step in plan.steps]
    assert titles == [
        "look for what is wrong already",
        "do what the items that need action say",
        "write down how things stand",
        "stop KAI's operator",
        "stop KAI's schedulers, and let the binder finish",
        "stop KAI's other services",
        "bring the definitions up to date",
        "install Bosket",
        "see that everything is in order",
        "clean up when you are sure",
    ]
    commands = [command for step in plan.steps for command in step.commands]
    operator = commands.index("kubectl scale -n kai-scheduler deployment/kai-operator --replicas=0")
    scheduler = commands.index("kubectl scale -n kai-scheduler deployment/kai-scheduler-default --replicas=0")
    others = commands.index("kubectl scale -n kai-scheduler --replicas=0 deployment/binder")
    assert operator < scheduler < others < commands.index("bosket crds --install")
    assert "kubectl delete lease -n kai-scheduler 2ad35f9c.kai.scheduler" in commands


def test_bosket_can_be_installed_as_the_step_says(capsys: pytest.CaptureFixture[str]) -> None:
    """What the cluster's administrators have written isn't overwritten."""
    step = next(step for step in plan_migration(read_files(FILES)).steps if step.title == "install Bosket")
    program, *arguments = step.commands[0].removesuffix(" | kubectl apply -f -").split()
    assert program == "bosket"
    assert main(arguments) == 0
    kinds = {document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)}
    assert {"Deployment", "ClusterRole", "ServiceAccount"} <= kinds
    assert not kinds & {"Config", "SchedulingShard", "Queue", "PriorityClass", "CustomResourceDefinition"}


def test_fields_of_a_newer_kai_need_action(tmp_path: Path) -> None:
    config = yaml.safe_load(FILES[0].read_text().split("\n---\n")[0])
    config["spec"]["queueAdmissionGating"] = {"enabled": True}
    config["spec"]["binder"]["service"]["image"]["digest"] = "sha256:0"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    fields = {each.field for each in plan_migration(read_files([file])).items if each.outlook is Outlook.ACTION}
    assert {"spec.queueAdmissionGating", "spec.binder.service.image.digest"} <= fields
    assert len(fields) == 3  # and the image of their own


def test_steps_that_are_done_are_left_out() -> None:
    titles = [step.title for step in plan_migration(bundle_of(installed(), KINDS)).steps]
    assert not [title for title in titles if title.startswith(("stop", "do what"))]


def test_definitions_of_kai_are_brought_up_to_date() -> None:
    name = "podgroups.scheduling.run.ai"
    path = "spec.versions.0.schema.openAPIV3Schema.properties.status.properties.phase"
    older = edited(definitions(), CustomResourceDefinition, name, path, None)
    assert (
        "changes",
        f"CustomResourceDefinition {name}",
        "spec.versions[v2alpha2].schema",
    ) in told(older)
    assert ("keep", "CustomResourceDefinition queues.scheduling.run.ai", "") in told(older)


def test_queues_that_the_new_definitions_refuse_need_action() -> None:
    fine, odd = queue("fine"), queue("odd", preempt_min_runtime="ten minutes")
    negative = edited([queue("negative")], Queue, "negative", "spec.resources.gpu.quota", -7)
    assert told([fine, odd, *negative, queue("orphan", parent="gone")]) == {
        ("keep", "1 Queue", ""),
        ("needs action", "Queue odd", "spec.preemptMinRuntime"),
        ("needs action", "Queue negative", "spec.resources.gpu.quota"),
        ("changes", "Queue orphan", "spec.parentQueue"),
    }


def test_pod_groups_that_kai_mixes_up_or_that_are_refused() -> None:
    twice = (SubGroup(name="a", minMember=1), SubGroup(name="a", minMember=1))
    groups: list[PodGroup] = [
        pod_group("same", namespace="x"),
        pod_group("same", namespace="y"),
        pod_group("odd", subgroups=twice),
    ]
    assert told(groups) == {
        ("changes", "PodGroup same", "metadata.name"),
        ("needs action", "PodGroup default/odd", "spec.subGroups"),
        ("changes", "3 PodGroups", "status"),
    }


def test_a_kueue_topology_that_was_copied_is_kept(tmp_path: Path) -> None:
    bundle = read_files([HERE / "kueue_topology.yaml"])
    copied = bundle_of([topology("racks", "example.com/rack")], KINDS, foreign=bundle.foreign)
    outlooks = {each.object: each.outlook for each in plan_migration(copied).items}
    assert outlooks == {"Kueue Topology racks": Outlook.KEEP, "1 Topology": Outlook.KEEP}


def test_a_pod_with_an_annotation_that_means_nothing_needs_action() -> None:
    assert ("needs action", "Pod default/odd", "metadata.annotations") in told([pod("odd").shares_gpu("half").build()])


def test_bosket_itself_is_not_taken_for_kai() -> None:
    plan = plan_migration(bundle_of([deployment("binder"), node("n")], KINDS))
    assert plan.kai_version == ""
    assert [each.object for each in plan.items] == []
    assert plan_migration(bundle_of([], (Node,))).items == ()


def test_the_command_prints_items_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", *map(str, FILES)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "KAI v0.17.1 runs in namespace kai-scheduler"
    assert lines[1].split() == ["outlook", "object", "field", "what", "becomes", "of", "it", "what", "to", "do"]
    assert lines[2].startswith("needs action")
    assert "   $ bosket crds --install" in lines


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", *map(str, FILES), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"]["needs action"] == 7
    assert {(each["outlook"], each["object"], each["field"]) for each in document["items"]} >= EXPECTED
    assert document["steps"][-1]["commands"]


def test_a_person_sees_colours_and_commands_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["migrate", *map(str, FILES)]) == 0
    output = capsys.readouterr().out
    assert "\x1b[1;31mneeds action" in output
    assert "$ kubectl scale -n kai-scheduler deployment/kai-scheduler-default --replicas=0" in output


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--help"]) == 0
    assert "bosket migrate dump.yaml snapshot.zip" in capsys.readouterr().out
