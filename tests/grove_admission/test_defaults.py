"""What PodCliqueSets are completed with."""

from __future__ import annotations

from typing import Any

from bosket.api.admission import AdmissionRequest
from bosket.grove.admission.defaults import completed
from bosket.grove.admission.review_handlers import complete_set
from bosket.kube.patch import apply_json_patch
from tests.grove_admission.sets import clique, group, pcs


def test_a_clique_gets_its_minimum_and_its_pods_what_they_lack() -> None:
    document = pcs(clique("a", 3, autoScalingConfig={"maxReplicas": 5}))
    spec = completed(document)["spec"]["template"]["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"], spec["autoScalingConfig"]["minReplicas"]) == (3, 3, 3)
    assert spec["podSpec"]["restartPolicy"] == "Always"
    assert spec["podSpec"]["terminationGracePeriodSeconds"] == 30


def test_a_role_that_is_not_named_is_the_cliques_own() -> None:
    document = pcs(clique("prefill", roleName=""), clique("decode"), clique("router"))
    del document["spec"]["template"]["cliques"][2]["spec"]["roleName"]
    cliques = completed(document)["spec"]["template"]["cliques"]
    assert [each["spec"]["roleName"] for each in cliques] == ["prefill", "decode-role", "router"]


def test_what_is_said_stays() -> None:
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "ofAFutureVersion": {"x": 1}}
    document = pcs(
        clique("a", 3, minAvailable=2, pod=pod, autoScalingConfig={"minReplicas": 2, "maxReplicas": 5}),
        terminationDelay="1m0s",
        headlessServiceConfig={"publishNotReadyAddresses": False},
    )
    assert completed(document) == document


def test_no_replicas_become_one_and_the_minimum_stays_none() -> None:
    spec = completed(pcs(clique("a", 0)))["spec"]["template"]["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"]) == (1, 0)


def test_a_set_gets_a_delay_and_a_service_and_groups_a_lower_bound() -> None:
    document = pcs(clique("a"), groups=(group("g", "a", replicas=2, scaleConfig={"maxReplicas": 4}),))
    template = completed(document)["spec"]["template"]
    assert template["terminationDelay"] == "4h0m0s"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    assert template["podCliqueScalingGroups"][0]["scaleConfig"]["minReplicas"] == 2


def test_equal_delays_look_equal() -> None:
    assert completed(pcs(clique("a"), terminationDelay="90m"))["spec"]["template"]["terminationDelay"] == "1h30m0s"


def test_nonsense_is_left_for_the_schema() -> None:
    odd = {"template": {"cliques": [None, {"spec": 1}], "terminationDelay": 3}}
    documents: tuple[dict[str, Any], ...] = ({}, {"spec": []}, {"spec": odd})
    for document in documents:
        completed(document)


def test_the_webhook_sends_what_changes_and_nothing_else() -> None:
    document = pcs(clique("a", 2))
    verdict = complete_set(AdmissionRequest(operation="CREATE", object=document))
    assert apply_json_patch(document, list(verdict.patch)) == completed(document)
    assert complete_set(AdmissionRequest(operation="UPDATE", object=completed(document))).patch == ()
