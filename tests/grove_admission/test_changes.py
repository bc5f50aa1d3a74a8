"""What of a PodCliqueSet may change, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.admission import AdmissionRequest
from bosket.grove.admission.defaults import completed
from bosket.grove.admission.review_handlers import check_set
from tests.grove_admission.sets import CONFIGURATION, Cluster, Json, changed, clique, group, judged, pcs, words

C = "spec.template.cliques"
G = "spec.template.podCliqueScalingGroups"
ORDERED = "CliqueStartupTypeInOrder"
SHARED = [{"name": "t", "scope": "AllReplicas"}]
OLD = pcs(
    clique("a", 2, minAvailable=1, template={"resourceSharing": SHARED}),
    clique("b", startsAfter=["a"]),
    clique("c"),
    groups=(group("g", "b", replicas=2, resourceSharing=SHARED),),
    resourceSharing=SHARED,
)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("cliques.0.spec.roleName", "x", f'{C}.spec.roleName: Invalid value: "x": field is immutable'),
        ("cliques.0.spec.minAvailable", 2, f"{C}.spec.minAvailable: Invalid value: 2: field is immutable"),
        ("cliques.1.spec.startsAfter", ["c"], f'{C}.spec.startsAfter: Invalid value: ["c"]: field is immutable'),
        ("cliques.1.spec.startsAfter", [], f"{C}.spec.startsAfter: Invalid value: null: field is immutable"),
        ("cliques.0.resourceSharing", [], f"{C}[0].resourceSharing: Invalid value: null: field is immutable"),
        ("cliques.2.name", "z", f"{C}.name: Forbidden: not allowed to change clique composition, new clique name 'z'"),
        ("cliqueStartupType", ORDERED, f'spec.template.cliqueStartupType: Invalid value: "{ORDERED}": field is'),
        ("podCliqueScalingGroups.0.cliqueNames", ["c"], f'{G}.cliqueNames: Invalid value: ["c"]: field is immutable'),
        ("podCliqueScalingGroups.0.minAvailable", 2, f"{G}.minAvailable: Invalid value: 2: field is immutable"),
        ("podCliqueScalingGroups.0.name", "h", f"{G}.name: Forbidden: not allowed to change scaling group composition"),
        (
            "podCliqueScalingGroups.0.resourceSharing",
            [],
            f"{G}.resourceSharing: Invalid value: null: field is immutable",
        ),
        ("podCliqueScalingGroups", [], f"{G}: Forbidden: not allowed to add or remove PodCliqueScalingGroupConfigs"),
        ("resourceSharing", [], "spec.template.resourceSharing: Invalid value: null: field is immutable"),
    ],
)
def test_what_gangs_rest_on_stays(path: str, value: Any, said: str) -> None:
    assert words(changed(OLD, f"spec.template.{path}", value), OLD).startswith(said)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 3),
        ("updateStrategy", {"type": "OnDelete"}),
        ("template.priorityClassName", "high"),
        ("template.terminationDelay", "1m"),
        ("template.headlessServiceConfig", {"publishNotReadyAddresses": False}),
        ("template.cliques.0.spec.replicas", 5),
        ("template.cliques.0.labels", {"k": "v"}),
        ("template.cliques.0.spec.podSpec.containers.0.image", "app:2"),
        ("template.cliques.0.spec.podSpec.topologySpreadConstraints", [{"maxSkew": 1, "topologyKey": "z"}]),
        ("template.podCliqueScalingGroups.0.replicas", 4),
        ("template.podCliqueScalingGroups.0.scaleConfig", {"minReplicas": 1, "maxReplicas": 3}),
    ],
)
def test_the_rest_may_change(path: str, value: Any) -> None:
    assert words(changed(OLD, f"spec.{path}", value), OLD) == ""


def reordered(document: Json) -> Json:
    return changed(document, "spec.template.cliques", document["spec"]["template"]["cliques"][::-1])


def test_order_matters_only_where_cliques_start_in_one() -> None:
    assert words(reordered(OLD), OLD) == ""
    old = pcs(clique("a"), clique("b"), cliqueStartupType=ORDERED)
    assert "clique order cannot be changed when StartupType is InOrder or Explicit" in words(reordered(old), old)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "g", "annotation grove.io/mnnvl-group cannot be added after creation"),
        ("g", None, "annotation grove.io/mnnvl-group cannot be removed after creation"),
        ("g", "h", 'annotation grove.io/mnnvl-group is immutable and cannot be changed from "g" to "h"'),
        ("g", "g", ""),
    ],
)
@pytest.mark.parametrize("place", ["metadata", "spec.template.cliques.0", "spec.template.podCliqueScalingGroups.0"])
def test_groups_of_nvlink_stay(place: str, before: str | None, after: str | None, said: str) -> None:
    plain = pcs(clique("a"), groups=(group("g", "a"),))

    def annotated(value: str | None) -> Json:
        annotations = {} if value is None else {"grove.io/mnnvl-group": value}
        return changed(plain, f"{place}.annotations", annotations)

    assert said in words(annotated(after), annotated(before))
    assert bool(words(annotated(after), annotated(before))) == bool(said)


def test_what_a_set_may_not_become_is_told_before_what_may_not_change() -> None:
    new = changed(changed(OLD, "spec.template.cliques.0.spec.roleName", "x"), "spec.replicas", -1)
    assert words(new, OLD) == "spec.replicas: Invalid value: -1: must be greater than or equal to 0"


def test_finalizers_can_be_taken_from_a_set_that_would_be_refused_by_now() -> None:
    old = pcs(clique("a", pod={"schedulerName": "volcano"}), metadata={"finalizers": ["f"]})
    closed = Cluster(queues={"default": "Closed"})
    assert "is not Open" in words(changed(old, "spec.replicas", 2), old, cluster=closed)
    verdict = judged(changed(old, "metadata.finalizers", []), old, cluster=closed)
    assert verdict.refusals == ()


def test_finalizers_can_be_taken_from_a_set_that_was_stored_while_no_webhook_completed_it() -> None:
    old = pcs(clique("a", pod={"schedulerName": "volcano"}), metadata={"finalizers": ["f"]})
    for each in old["spec"]["template"]["cliques"]:
        each["spec"].pop("minAvailable", None)
    assert completed(old)["spec"] != old["spec"]
    new = completed(changed(old, "metadata.finalizers", []))
    request = AdmissionRequest(uid="1", operation="UPDATE", object=new, oldObject=old)
    assert check_set(request, CONFIGURATION, Cluster(queues={"default": "Closed"})).refusals == ()


def test_an_annotation_does_not_give_another_scheduler_to_a_set_that_has_one() -> None:
    annotation = "metadata.annotations[grove.io/scheduler-backend]"
    to_kai = changed(OLD, "metadata.annotations", {"grove.io/scheduler-backend": "kai"})
    refused = f'{annotation}: Invalid value: "kai": field is immutable: the set\'s pods are for the scheduler'
    assert f"{refused} default-scheduler" in words(to_kai, OLD)
    same = changed(OLD, "metadata.annotations", {"grove.io/scheduler-backend": "default"})
    assert words(same, OLD) == ""


def test_a_stored_clique_without_a_role_gets_its_own_with_a_change() -> None:
    old = completed(OLD)
    old["spec"]["template"]["cliques"][0]["spec"]["roleName"] = ""
    name = old["spec"]["template"]["cliques"][0]["name"]
    new = changed(old, "spec.replicas", 5)
    request = AdmissionRequest(operation="UPDATE", object=completed(new), oldObject=old)
    assert completed(new)["spec"]["template"]["cliques"][0]["spec"]["roleName"] == name
    assert check_set(request, CONFIGURATION, Cluster()).words == ""
