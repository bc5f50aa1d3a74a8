"""Defaults and rules of workloads and of the other built-in kinds."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.apiserver.world import MERGE, Doc, World

NAMESPACED = "/apis/{}/namespaces/default/{}"
CONTAINERS = [{"name": "c", "image": "i"}]


def template(**spec: Any) -> Doc:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS, **spec}}


async def create(world: World, api_version: str, plural: str, spec: Doc, name: str = "x") -> Doc:
    path = NAMESPACED.format(api_version, plural) if "/" in api_version else f"/api/v1/namespaces/default/{plural}"
    created: Doc = await world.ok("POST", path, {"metadata": {"name": name}, "spec": spec})
    return created


async def test_a_deployment_gets_its_defaults(world: World) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template()}
    found = (await create(world, "apps/v1", "deployments", spec))["spec"]
    assert (found["replicas"], found["revisionHistoryLimit"], found["progressDeadlineSeconds"]) == (1, 10, 600)
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert found["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert found["template"]["spec"]["restartPolicy"] == "Always"


async def test_a_stateful_set_gets_its_defaults_and_keeps_what_is_fixed(world: World) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template()}
    found = (await create(world, "apps/v1", "statefulsets", spec))["spec"]
    assert (found["replicas"], found["podManagementPolicy"]) == (1, "OrderedReady")
    assert found["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    path = NAMESPACED.format("apps/v1", "statefulsets") + "/x"
    await world.ok("PATCH", path, {"spec": {"replicas": 3}}, MERGE)
    status = await world.refused(422, "PATCH", path, {"spec": {"serviceName": "t"}}, MERGE)
    assert "updates to statefulset spec for fields other than 'replicas'" in status["message"]


async def test_a_job_gets_its_defaults_and_a_selector_of_its_own(world: World) -> None:
    created = await create(world, "batch/v1", "jobs", {"template": template(restartPolicy="Never")})
    found, uid = created["spec"], created["metadata"]["uid"]
    assert (found["parallelism"], found["completions"], found["backoffLimit"]) == (1, 1, 6)
    assert (found["completionMode"], found["suspend"]) == ("NonIndexed", False)
    assert found["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert found["template"]["metadata"]["labels"] == {
        "a": "b",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": uid,
        "job-name": "x",
    }


async def test_a_job_of_a_generated_name_labels_its_pods_with_that(world: World) -> None:
    spec = {"template": template(restartPolicy="Never")}
    created = await world.ok(
        "POST", NAMESPACED.format("batch/v1", "jobs"), {"metadata": {"generateName": "j-"}, "spec": spec}
    )
    assert created["spec"]["template"]["metadata"]["labels"]["job-name"] == created["metadata"]["name"]


async def test_a_work_queue_job_has_no_completions(world: World) -> None:
    spec = {"parallelism": 3, "template": template(restartPolicy="Never")}
    assert "completions" not in (await create(world, "batch/v1", "jobs", spec))["spec"]


async def test_the_template_of_a_job_is_fixed_except_for_placement_before_it_starts(world: World) -> None:
    path = NAMESPACED.format("batch/v1", "jobs") + "/x"
    await create(world, "batch/v1", "jobs", {"suspend": True, "template": template(restartPolicy="Never")})
    narrower = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}
    await world.ok("PATCH", path, narrower, MERGE)
    await world.ok("PATCH", path, {"spec": {"suspend": False}}, MERGE)
    other = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}
    status = await world.refused(422, "PATCH", path, other, MERGE)
    assert "spec.template: Invalid value" in status["message"]
    assert "field is immutable" in status["message"]


@pytest.mark.parametrize(
    ("api_version", "plural", "spec", "field", "words"),
    [
        ("batch/v1", "jobs", {"template": template()}, "spec.template.spec.restartPolicy", '"OnFailure", "Never"'),
        (
            "batch/v1",
            "jobs",
            {"parallelism": -1, "template": template(restartPolicy="Never")},
            "spec.parallelism",
            "greater than or equal to 0",
        ),
        (
            "batch/v1",
            "jobs",
            {"completionMode": "Indexed", "parallelism": 2, "template": template(restartPolicy="Never")},
            "spec.completions",
            "Required value",
        ),
        ("apps/v1", "deployments", {"template": template()}, "spec.selector", "Required value"),
        (
            "apps/v1",
            "deployments",
            {"selector": {"matchLabels": {"x": "y"}}, "template": template()},
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
        ),
        (
            "apps/v1",
            "deployments",
            {"selector": {"matchLabels": {"a": "b"}}, "template": template(restartPolicy="Never")},
            "spec.template.spec.restartPolicy",
            'supported values: "Always"',
        ),
        (
            "apps/v1",
            "replicasets",
            {"replicas": -1, "selector": {"matchLabels": {"a": "b"}}, "template": template()},
            "spec.replicas",
            "greater than or equal to 0",
        ),
        (
            "batch/v1",
            "cronjobs",
            {"schedule": "", "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}},
            "spec.schedule",
            "Required",
        ),
        ("policy/v1", "poddisruptionbudgets", {"minAvailable": 1, "maxUnavailable": 1}, "spec", "cannot be both set"),
        ("v1", "services", {"ports": []}, "spec.ports", "Required value"),
        ("v1", "services", {"ports": [{"port": 0}]}, "spec.ports[0].port", "between 1 and 65535"),
        ("v1", "persistentvolumeclaims", {}, "spec.accessModes", "at least 1 access mode is required"),
    ],
)
async def test_a_spec_that_breaks_a_rule_is_refused_with_field_and_reason(
    world: World, api_version: str, plural: str, spec: Doc, field: str, words: str
) -> None:
    path = NAMESPACED.format(api_version, plural) if "/" in api_version else f"/api/v1/namespaces/default/{plural}"
    status = await world.refused(422, "POST", path, {"metadata": {"name": "x"}, "spec": spec})
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert words in causes.get(field, ""), causes


async def test_a_selector_stays_what_it_is(world: World) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template()}
    await create(world, "apps/v1", "deployments", spec)
    path = NAMESPACED.format("apps/v1", "deployments") + "/x"
    status = await world.refused(422, "PATCH", path, {"spec": {"selector": {"matchLabels": {"c": "d"}}}}, MERGE)
    assert "spec.selector: Invalid value" in status["message"]


async def test_services_get_addresses_of_their_own(world: World) -> None:
    first = (await create(world, "v1", "services", {"ports": [{"port": 80}]}, "one"))["spec"]
    second = (await create(world, "v1", "services", {"type": "NodePort", "ports": [{"port": 80}]}, "two"))["spec"]
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert second["ports"][0]["nodePort"] >= 30000
    headless = (await create(world, "v1", "services", {"clusterIP": "None"}, "three"))["spec"]
    assert headless["clusterIPs"] == ["None"]


async def test_a_node_is_registered_with_its_status(world: World) -> None:
    status = {"capacity": {"cpu": "4.0", "memory": "1024Mi"}}
    found = await world.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
    assert found["status"]["capacity"] == {"cpu": "4", "memory": "1Gi"}
    assert found["status"]["allocatable"] == {"cpu": "4", "memory": "1Gi"}


async def test_a_secret_takes_plain_text_and_hides_bad_data(world: World) -> None:
    path = "/api/v1/namespaces/default/secrets"
    found = await world.ok("POST", path, {"metadata": {"name": "s"}, "stringData": {"k": "hello"}})
    assert base64.b64decode(found["data"]["k"]) == b"hello"
    assert "stringData" not in found
    status = await world.refused(422, "POST", path, {"metadata": {"name": "t"}, "data": {"k": "not base64!"}})
    assert "not base64!" not in status["message"]


async def test_an_immutable_config_map_is(world: World) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await world.ok("POST", path, {"metadata": {"name": "c"}, "data": {"k": "1"}, "immutable": True})
    await world.refused(422, "PATCH", f"{path}/c", {"data": {"k": "2"}}, MERGE)


async def test_a_priority_does_not_change(world: World) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await world.ok("POST", path, {"metadata": {"name": "p"}, "value": 1})
    status = await world.refused(422, "PATCH", f"{path}/p", {"value": 2}, MERGE)
    assert "value: Forbidden: may not be changed in an update." in status["message"]


async def test_an_event_is_the_same_in_both_groups(world: World) -> None:
    old, new = "/api/v1/namespaces/default/events", NAMESPACED.format("events.k8s.io/v1", "events")
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    body = {
        "metadata": {"name": "e"},
        "regarding": regarding,
        "note": "hello",
        "reason": "R",
        "reportingController": "me",
    }
    await world.ok("POST", new, body)
    found = await world.ok("GET", f"{old}/e")
    assert (found["apiVersion"], found["involvedObject"], found["message"]) == ("v1", regarding, "hello")
    await world.ok("PATCH", f"{old}/e", {"message": "bye"}, MERGE)
    back = await world.ok("GET", f"{new}/e")
    assert (back["apiVersion"], back["note"], back["reportingController"]) == ("events.k8s.io/v1", "bye", "me")
    assert (await world.ok("GET", old, fieldSelector="involvedObject.name=p,reason=R"))["items"]
    wrong = {"metadata": {"name": "f"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "kube-system"}}
    status = await world.refused(422, "POST", old, wrong)
    assert "does not match event.namespace" in status["message"]
