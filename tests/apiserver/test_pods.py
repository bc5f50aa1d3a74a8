"""Pods: what the server adds, what it refuses, what may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import JSON_PATCH, MERGE, PODS, Doc, World, pod

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_a_pod_gets_the_usual_defaults(world: World) -> None:
    spec = (await world.create_pod())["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    tolerated = [(each["key"], each["tolerationSeconds"]) for each in spec["tolerations"]]
    assert tolerated == [("node.kubernetes.io/not-ready", 300), ("node.kubernetes.io/unreachable", 300)]
    container = spec["containers"][0]
    assert container["resources"] == {}
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"


async def test_a_quantity_that_is_none_is_named_with_its_place(world: World) -> None:
    status = await world.refused(400, "POST", PODS, pod("a", containers=resources({"cpu": "much"})))
    assert status["message"].startswith("spec.containers[0].resources.requests[cpu]: 'much' is not a quantity")


async def test_a_negative_grace_is_the_shortest(world: World) -> None:
    assert (await world.create_pod("a", terminationGracePeriodSeconds=-1))["spec"]["terminationGracePeriodSeconds"] == 1


async def test_the_default_scheduler_is_the_servers_to_choose() -> None:
    world = World(default_scheduler_name="kai-scheduler")
    assert (await world.create_pod("a"))["spec"]["schedulerName"] == "kai-scheduler"
    assert (await world.create_pod("b", schedulerName="other"))["spec"]["schedulerName"] == "other"


async def test_a_tolerance_of_ones_own_is_not_doubled(world: World) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    tolerations = (await world.create_pod("a", tolerations=[own]))["spec"]["tolerations"]
    assert [each["key"] for each in tolerations] == [own["key"], "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("host:5000/a/b:1", "IfNotPresent"),
        ("a@sha256:1", "IfNotPresent"),
    ],
)
async def test_an_image_without_a_version_is_always_pulled(world: World, image: str, policy: str) -> None:
    created = await world.create_pod("a", containers=[{"name": "c", "image": image}])
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


def resources(requests: Doc | None = None, limits: Doc | None = None) -> list[Doc]:
    both = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return [{"name": "c", "image": "i", "resources": both}]


async def test_limits_are_requests_where_none_are_made_and_quantities_are_canonical(world: World) -> None:
    containers = resources({"cpu": "0.5"}, {"cpu": 1, "memory": "1024Mi", "nvidia.com/gpu": 2})
    found = (await world.create_pod("a", containers=containers))["spec"]["containers"][0]["resources"]
    assert found["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}
    assert found["requests"] == {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        (resources(), "BestEffort"),
        (resources({"cpu": "1"}), "Burstable"),
        (resources(None, {"cpu": "1", "memory": "1Gi"}), "Guaranteed"),
        (resources({"cpu": "500m"}, {"cpu": "1", "memory": "1Gi"}), "Burstable"),
    ],
)
async def test_the_quality_of_service_follows_from_the_resources(
    world: World, containers: list[Doc], expected: str
) -> None:
    assert (await world.create_pod("a", containers=containers))["status"]["qosClass"] == expected


async def test_a_pods_status_is_the_servers_at_first(world: World) -> None:
    manifest = pod("a") | {"status": {"phase": "Running"}}
    assert (await world.ok("POST", PODS, manifest))["status"]["phase"] == "Pending"


async def test_priority_comes_from_the_class(world: World) -> None:
    await world.ok("POST", PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"})
    spec = (await world.create_pod("a", priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    status = await world.refused(403, "POST", PODS, pod("b", priorityClassName="none"))
    assert status["message"] == 'pods "b" is forbidden: no PriorityClass with name none was found'
    status = await world.refused(403, "POST", PODS, pod("b", priorityClassName="high", priority=8))
    assert "must not be provided in pod spec" in status["message"]


async def test_a_class_may_be_the_default_but_only_one(world: World) -> None:
    await world.ok("POST", PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    spec = (await world.create_pod("a"))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (5, "usual")
    second = {"metadata": {"name": "other"}, "value": 6, "globalDefault": True}
    status = await world.refused(403, "POST", PRIORITY_CLASSES, second)
    assert "usual is already marked as default" in status["message"]


async def test_a_service_account_that_is_named_must_exist(world: World) -> None:
    status = await world.refused(403, "POST", PODS, pod("a", serviceAccountName="robot"))
    assert 'serviceaccount "robot" not found' in status["message"]


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"containers": []}, "spec.containers", "Required value"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name", "Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image", "Required value"),
        ({"containers": [{"name": "c", "image": "i"}] * 2}, "spec.containers[1].name", 'Duplicate value: "c"'),
        ({"containers": [{"name": "C_", "image": "i"}]}, "spec.containers[0].name", "RFC 1123 label"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy", 'Unsupported value: "Sometimes"'),
        (
            {"containers": resources({"cpu": "-1"})},
            "spec.containers[0].resources.requests[cpu]",
            "greater than or equal",
        ),
        ({"containers": resources({"cpu": 2}, {"cpu": 1})}, "spec.containers[0].resources.requests", "cpu limit of 1"),
        (
            {"containers": resources(None, {"nvidia.com/gpu": "500m"})},
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            "must be an integer",
        ),
        ({"containers": resources({"nvidia.com/gpu": 1})}, "spec.containers[0].resources.limits", "Limit must be set"),
        ({"tolerations": [{"key": "", "operator": "Equal"}]}, "spec.tolerations[0].operator", "must be Exists"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name", "Duplicate value"),
        (
            {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
            'Not found: "v"',
        ),
        ({"schedulingGates": [{"name": "g"}], "nodeName": "n"}, "spec.nodeName", "schedulingGates"),
        ({"hostname": "n" * 64}, "spec.hostname", "no more than 63"),
        ({"subdomain": "a.b"}, "spec.subdomain", "RFC 1123 label"),
    ],
)
async def test_a_pod_that_breaks_a_rule_is_refused_with_field_and_reason(
    world: World, spec: Doc, field: str, words: str
) -> None:
    status = await world.refused(422, "POST", PODS, pod("a", **spec))
    assert status["message"].startswith('Pod "a" is invalid: ')
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert field in causes, causes
    assert words in causes[field]


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "other"}, True),
        ({"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 10}, True),
        ({"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}, True),
        ({"op": "add", "path": "/spec/nodeName", "value": "n"}, False),
        ({"op": "replace", "path": "/spec/schedulerName", "value": "other"}, False),
        ({"op": "add", "path": "/spec/containers/0/command", "value": ["x"]}, False),
        ({"op": "remove", "path": "/spec/tolerations/0"}, True),  # it comes back
        ({"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}, False),
    ],
)
async def test_little_of_a_pods_spec_may_change(world: World, operation: Doc, allowed: bool) -> None:
    await world.create_pod()
    answer = await world.call("PATCH", f"{PODS}/a", [operation], JSON_PATCH)
    assert answer.status == (200 if allowed else 422)
    if not allowed and "tolerations" not in operation["path"]:
        assert "spec: Forbidden: pod updates may not change fields other than" in answer.message


async def test_a_toleration_stays(world: World) -> None:
    await world.create_pod("a", tolerations=[{"key": "k", "operator": "Exists"}])
    operations = [{"op": "remove", "path": "/spec/tolerations/0"}]
    status = await world.refused(422, "PATCH", f"{PODS}/a", operations, JSON_PATCH)
    assert "existing toleration can not be modified" in status["message"]


async def test_gates_can_only_be_removed_and_while_there_are_any_placement_may_narrow(world: World) -> None:
    created = await world.create_pod("a", schedulingGates=[{"name": "x.io/g"}])
    condition = created["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    await world.ok("PATCH", f"{PODS}/a", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE)
    more = {"spec": {"schedulingGates": [{"name": "x.io/g"}, {"name": "x.io/h"}]}}
    status = await world.refused(422, "PATCH", f"{PODS}/a", more, MERGE)
    assert "only deletion is allowed" in status["message"]
    await world.ok("PATCH", f"{PODS}/a", {"spec": {"schedulingGates": None}}, MERGE)
    await world.refused(422, "PATCH", f"{PODS}/a", {"spec": {"nodeSelector": {"c": "d"}}}, MERGE)


async def test_resources_change_through_resize_only(world: World) -> None:
    await world.create_pod("a", containers=resources({"cpu": "1"}))
    change: Any = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    strategic = "application/strategic-merge-patch+json"
    await world.refused(422, "PATCH", f"{PODS}/a", change, strategic)
    resized = await world.ok("PATCH", f"{PODS}/a/resize", change, strategic)
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert resized["spec"]["containers"][0]["image"] == "i"


async def test_logs_are_empty_and_processes_are_not_there(world: World) -> None:
    await world.create_pod()
    assert (await world.call("GET", f"{PODS}/a/log")).body == b""
    await world.refused(404, "GET", f"{PODS}/b/log")
    assert "run no processes" in (await world.refused(405, "POST", f"{PODS}/a/exec"))["message"]
