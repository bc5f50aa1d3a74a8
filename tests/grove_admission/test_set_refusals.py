"""What new PodCliqueSets are refused for, in Grove's words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.grove.operator_configuration import SchedulerConfiguration, SchedulerProfile
from tests.grove_admission.sets import CONFIGURATION, Cluster, Json, clique, group, judged, pcs, words

EXPLICIT = "CliqueStartupTypeExplicit"
A = "spec.template.cliques[0]"
G = "spec.template.podCliqueScalingGroups"
DEVICES = {"spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "x"}}]}}}


def env(*names: str) -> Json:
    return {"containers": [{"name": "main", "image": "i", "env": [{"name": name} for name in names]}]}


def test_a_plain_set_is_admitted_and_its_restart_policy_warned_about_once() -> None:
    verdict = judged(pcs(clique("a"), clique("b")))
    assert verdict.refusals == ()
    assert verdict.warnings == ("restartPolicy will be ignored, it will be set to Always",)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (pcs(), "spec.template.cliques: Required value: at least one PodClique must be defined"),
        (pcs(clique("")), f"{A}.name: Required value: field cannot be empty"),
        (
            pcs(clique("a", minAvailable=2)),
            f"{A}.spec.minAvailable: Invalid value: 2: minAvailable must not be greater",
        ),
        (pcs(clique("a", -1, minAvailable=1)), f"{A}.spec.replicas: Invalid value: -1: must be greater than 0"),
        (pcs(clique("a"), clique("a")), 'spec.template.cliques.name: Duplicate value: ["a"]'),
        (pcs(clique("a", pod=env("1x"))), f"{A}.spec.podSpec.spec.containers[0].env[0].name: Invalid value"),
        (pcs(clique("a", pod=env(".."))), "must not be '..'"),
        (pcs(clique("a", pod=env("A", "A"))), f'{A}.spec.podSpec.spec.containers[0].env: Duplicate value: ["A"]'),
        (
            pcs(clique("a", pod={"nodeName": "n"})),
            f'{A}.spec.podSpec.spec.nodeName: Invalid value: "n": must not be set',
        ),
        (pcs(clique("a", template={"labels": {"k": "-"}})), f'{A}.labels: Invalid value: "-": a valid label must be'),
        (pcs(clique("a", template={"annotations": {"a b": ""}})), f'{A}.annotations: Invalid value: "a b": name part'),
        (
            pcs(clique("a", 3, minAvailable=2, autoScalingConfig={"minReplicas": 1, "maxReplicas": 0})),
            f"[{A}.spec.autoScalingConfig.minReplicas: Invalid value: 1: must be greater than or equal to "
            f"podCliqueSpec.minAvailable, {A}.spec.autoScalingConfig.maxReplicas: Invalid value: 0: must be greater "
            f"than or equal to podCliqueSpec.minReplicas, {A}.spec.autoScalingConfig.maxReplicas: Invalid value: 0: "
            "must be greater than or equal to replicas]",
        ),
        (
            pcs(clique("a", startsAfter=["", "b", "b"]), clique("b"), cliqueStartupType=EXPLICIT),
            f"{A}.spec.startsAfter: Required value: clique dependency must not be empty",
        ),
        (
            pcs(clique("a", startsAfter=["b", "b"]), clique("b"), cliqueStartupType=EXPLICIT),
            f'{A}.spec.startsAfter: Duplicate value: ["b"]',
        ),
        (
            pcs(
                clique("a", startsAfter=["c"]),
                clique("b", startsAfter=["a"]),
                clique("c", startsAfter=["b"]),
                cliqueStartupType=EXPLICIT,
            ),
            'spec.template.cliques: Invalid value: [["b","c","a"]]: clique must not have circular dependencies',
        ),
        (pcs(clique("a"), terminationDelay="-5s"), 'spec.template.terminationDelay: Invalid value: "-5s"'),
        (pcs(clique("a"), terminationDelay="soon"), "is not a duration"),
        (
            pcs(clique("a"), groups=(group("g", "x"),)),
            f'{G}[0].cliqueNames: Invalid value: "x": unidentified PodClique',
        ),
        (pcs(clique("a"), groups=(group("G", "a"),)), f'{G}[0].name: Invalid value: "G": invalid'),
        (pcs(clique("a"), groups=(group("g", "a"), group("h", "a"))), f'{G}.cliqueNames: Duplicate value: ["a"]'),
        (
            pcs(clique("a"), groups=(group("g", "a", replicas=0),)),
            f"{G}[0].replicas: Invalid value: 0: must be greater",
        ),
        (pcs(clique("a"), groups=(group("g", "a", minAvailable=2),)), f"{G}[0].minAvailable: Invalid value: 2"),
        (
            pcs(clique("a"), groups=(group("g", "a", minAvailable=0),)),
            f"{G}[0].minAvailable: Invalid value: 0: must be greater than 0",
        ),
        (
            pcs(
                clique("a"),
                groups=(group("g", "a", replicas=3, minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 3}),),
            ),
            f"{G}[0].scaleConfig.minReplicas: Invalid value: 1: scaleConfig.minReplicas must be greater",
        ),
        (
            pcs(clique("c" * 30), groups=(group("g" * 15, "c" * 30),)),
            "combined resource name length 46 exceeds 45-character limit required for pod naming. Consider shortening: "
            f"PodCliqueSet 's', PodCliqueScalingGroup '{'g' * 15}', or PodClique '{'c' * 30}'",
        ),
    ],
)
def test_what_is_wrong_is_refused(document: Json, said: str) -> None:
    assert said in words(document)


@pytest.mark.parametrize("order", [(), ("b", "a")])
def test_order_is_not_looked_at_where_it_does_not_count(order: tuple[str, ...]) -> None:
    assert words(pcs(clique("a", startsAfter=["b", *order]), clique("b", startsAfter=["a"]))) == ""


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            {"resourceClaimTemplates": [{"name": "", "templateSpec": DEVICES}]},
            "[0].name: Required value: template name",
        ),
        (
            {"resourceClaimTemplates": [{"name": "t", "templateSpec": {"spec": {"devices": {}}}}]},
            "resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required value: at least one device request",
        ),
        (
            {"resourceClaimTemplates": [{"name": "t", "templateSpec": DEVICES}] * 2},
            'resourceClaimTemplates.name: Duplicate value: ["t"]',
        ),
        ({"resourceSharing": [{"name": "", "scope": "AllReplicas"}]}, "resourceSharing[0].name: Required value"),
        (
            {"resourceSharing": [{"name": "t", "scope": "AllReplicas"}, {"name": "t", "scope": "PerReplica"}]},
            'resourceSharing[1].name: Duplicate value: "t"',
        ),
        (
            {
                "resourceClaimTemplates": [{"name": "t", "templateSpec": DEVICES}],
                "resourceSharing": [{"name": "t", "namespace": "other", "scope": "AllReplicas"}],
            },
            'resourceSharing[0].namespace: Invalid value: "other": namespace must be empty',
        ),
        (
            {"resourceSharing": [{"name": "t", "scope": "AllReplicas", "filter": {}}]},
            "resourceSharing[0].filter: Required value: filter must specify at least one",
        ),
        (
            {"resourceSharing": [{"name": "t", "scope": "AllReplicas", "filter": {"childCliqueNames": ["x"]}}]},
            'resourceSharing[0].filter.childCliqueNames[0]: Not found: "x"',
        ),
        (
            {"resourceSharing": [{"name": "t", "scope": "AllReplicas", "filter": {"childScalingGroupNames": ["x"]}}]},
            'resourceSharing[0].filter.childScalingGroupNames[0]: Not found: "x"',
        ),
    ],
)
def test_claims_that_nobody_could_share_are_refused(template: Json, said: str) -> None:
    assert said in words(pcs(clique("a"), **template))


def test_a_group_shares_with_its_own_cliques_only() -> None:
    sharing = [{"name": "t", "scope": "AllReplicas", "filter": {"childCliqueNames": ["b"]}}]
    document = pcs(clique("a"), clique("b"), groups=(group("g", "a", resourceSharing=sharing),))
    assert words(document) == f'{G}[0].resourceSharing[0].filter.childCliqueNames[0]: Not found: "b"'


def for_scheduler(name: str, **more: Any) -> Json:
    return pcs(clique("a", pod={"schedulerName": name}), **more)


QUEUE = "scheduling.grove.io/volcano-queue"
PACKED = {"topologyName": "t", "pack": {"required": "rack"}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            pcs(clique("a", pod={"schedulerName": "volcano"}), clique("b")),
            '"volcano, default-scheduler": the scheduler',
        ),
        (for_scheduler("nobodys"), 'spec: Invalid value: {…}: schedulerName "nobodys" is not enabled'),
        (
            pcs(
                clique("a", pod={"schedulerName": "kai-scheduler"}, template={"labels": {"kai.scheduler/queue": "q"}}),
                metadata={"labels": {"kai.scheduler/queue": "p"}},
            ),
            'KAI queue on PodCliqueSet ml/s is "p" but PodClique template "a" resolves to "q"',
        ),
        (for_scheduler("volcano", topologyConstraint=PACKED), "does not support topologyConstraint on PodCliqueSet"),
        (for_scheduler("lpx-scheduler", topologyConstraint=PACKED), "lpx-scheduler does not support Grove topology"),
        (for_scheduler("yunikorn", topologyConstraint=PACKED), "yunikorn scheduler backend cannot keep a required"),
        (for_scheduler("volcano", metadata={"annotations": {QUEUE: "none"}}), 'volcano queue "none" does not exist'),
        (for_scheduler("volcano", metadata={"annotations": {QUEUE: "shut"}}), 'volcano queue "shut" is not Open'),
        (
            for_scheduler("volcano", metadata={"annotations": {QUEUE: "A_"}}),
            f"metadata.annotations[{QUEUE}]: a lowercase",
        ),
        (
            pcs(
                clique("a", pod={"schedulerName": "volcano"}, template={"annotations": {QUEUE: "open"}}),
                clique("b", pod={"schedulerName": "volcano"}),
            ),
            "all PodCliques in a PodCliqueSet using volcano scheduler must resolve to the same queue",
        ),
    ],
)
def test_what_a_scheduler_cannot_do_is_refused(document: Json, said: str) -> None:
    assert said in words(document, cluster=Cluster(queues={"default": "Open", "open": "Open", "shut": "Closed"}))


@pytest.mark.parametrize(
    ("of_set", "of_cliques"),
    [("open", ["", ""]), ("open", ["open", ""]), ("", ["open", "open"]), ("", ["", ""])],
)
def test_queues_of_volcano_that_agree_and_are_open_are_admitted(of_set: str, of_cliques: list[str]) -> None:
    """Unit table "Volcano: queue matrix"."""
    cliques = (
        clique(
            f"c{index}",
            pod={"schedulerName": "volcano"},
            template={"annotations": {QUEUE: each}} if each else {},
        )
        for index, each in enumerate(of_cliques)
    )
    metadata = {"annotations": {QUEUE: of_set}} if of_set else {}
    assert words(pcs(*cliques, metadata=metadata), cluster=Cluster(queues={"default": "Open", "open": "Open"})) == ""


def test_volcano_packs_where_it_knows_what_is_close() -> None:
    assert words(for_scheduler("volcano", topologyConstraint=PACKED), cluster=Cluster(hyper_nodes=True)) == ""


ENABLED = ("default-scheduler", "kai-scheduler")


@pytest.mark.parametrize(
    ("default", "names", "said"),
    [
        ("default-scheduler", ["default-scheduler", "default-scheduler"], ""),
        ("default-scheduler", ["", ""], ""),
        ("kai-scheduler", ["", ""], ""),
        ("default-scheduler", ["", "default-scheduler"], ""),
        ("default-scheduler", ["kai-scheduler"], ""),
        ("kai-scheduler", ["", "kai-scheduler"], ""),
        ("default-scheduler", ["default-scheduler", "kai-scheduler"], "default-scheduler, kai-scheduler"),
        ("default-scheduler", ["", "kai-scheduler"], "default-scheduler, kai-scheduler"),
        ("default-scheduler", ["volcano"], '"volcano" is not enabled'),
        ("default-scheduler", ["volcano", "volcano"], '"volcano" is not enabled'),
    ],
)
def test_all_cliques_have_one_scheduler_which_is_enabled(default: str, names: list[str], said: str) -> None:
    """Unit table "scheduler names validation"."""
    profiles = tuple(SchedulerProfile(name=each) for each in ENABLED)
    scheduler = SchedulerConfiguration(profiles=profiles, defaultProfileName=default)
    cliques = (clique(f"c{index}", pod={"schedulerName": each}) for index, each in enumerate(names))
    found = words(pcs(*cliques), configuration=replace(CONFIGURATION, scheduler=scheduler))
    assert said in found
    assert bool(found) == bool(said)


ANNOTATION = "grove.io/scheduler-backend"


@pytest.mark.parametrize(
    ("backend", "name", "said"),
    [
        ("kai", "", ""),
        ("kai", "default-scheduler", ""),
        ("kai", "kai-scheduler", ""),
        ("default", "kai-scheduler", ""),
        (
            "koordinator",
            "",
            f'metadata.annotations[{ANNOTATION}]: Invalid value: "koordinator": pods of this backend are for the '
            "scheduler koord-scheduler, which is not enabled in OperatorConfiguration",
        ),
        (
            "slurm",
            "",
            f'metadata.annotations[{ANNOTATION}]: Unsupported value: "slurm": supported values: "default", '
            '"koordinator", "volcano", "yunikorn", "kai"',
        ),
    ],
)
def test_an_annotation_names_a_backend_that_there_is_and_whose_scheduler_is_enabled(
    backend: str, name: str, said: str
) -> None:
    cliques: tuple[dict[str, Any], ...] = (clique("a", pod={"schedulerName": name}), clique("b"))
    if name:
        cliques = cliques[:1]
    found = words(pcs(*cliques, metadata={"annotations": {ANNOTATION: backend}}))
    assert said in found
    assert bool(found) == bool(said)


def test_what_the_backend_of_the_annotation_cannot_do_is_refused() -> None:
    document = pcs(clique("a"), metadata={"annotations": {ANNOTATION: "volcano"}})
    assert 'volcano queue "default" does not exist' in words(document, cluster=Cluster(queues={}))


def test_cliques_without_roles_are_no_duplicates() -> None:
    assert words(pcs(clique("a", roleName=""), clique("b", roleName=""))) == ""
    assert "cliques.roleName: Duplicate value" in words(pcs(clique("a", roleName=""), clique("b", roleName="a")))


def test_a_scheduler_that_is_not_named_is_the_default_one() -> None:
    assert words(pcs(clique("a", pod={"schedulerName": "default-scheduler"}), clique("b"))) == ""


@pytest.mark.parametrize(
    ("group_name", "said"),
    [
        ("", "mnnvl-group value must not be empty"),
        ("A", 'mnnvl-group value "A" is not a valid DNS-1123 label'),
        ("none", ""),
        ("g", ""),
    ],
)
def test_groups_of_nvlink_have_names(group_name: str, said: str) -> None:
    annotations = {"annotations": {"grove.io/mnnvl-group": group_name}}
    for document in (
        pcs(clique("a"), metadata=annotations),
        pcs(clique("a", template=annotations)),
        pcs(clique("a"), groups=(group("g", "a", **annotations),)),
    ):
        assert said in words(document)
        assert bool(words(document)) == bool(said)
