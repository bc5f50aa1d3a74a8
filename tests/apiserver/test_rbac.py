"""Roles and bindings are really evaluated: who may do what, who may grant it, and how a refusal reads."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.apiserver.rbac.rule import Rule, not_covered
from bosket.apiserver.request.request_info import Attributes, parse_request
from bosket.apiserver.request.resource_request import User
from bosket.kube.transport import Request
from tests.apiserver.world import APPLY, CONFIG_MAPS, MERGE, PODS, World, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
JANE = "jane"


def rule(verbs: str, resources: str = "", groups: str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"verbs": verbs.split(","), **more}
    if resources:
        found |= {"resources": resources.split(","), "apiGroups": groups.split(",")}
    return found


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, role_name: str, *subjects: str, kind: str = "Role") -> dict[str, Any]:
    """Subjects are written `User jane`, `ServiceAccount bot default`."""
    found = []
    for subject in subjects or (f"User {JANE}",):
        subject_kind, subject_name, *namespace = subject.split()
        found.append({"kind": subject_kind, "name": subject_name} | ({"namespace": namespace[0]} if namespace else {}))
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role_name}, "subjects": found}


class Asking(World):
    """A world with users in it."""

    def as_user(self, name: str = JANE, *groups: str) -> Asking:
        other = Asking.__new__(Asking)
        other.clock, other.server = self.clock, self.server
        other.transport = self.server.transport(name, (*groups, "system:authenticated"))
        return other


@pytest.fixture
async def world() -> Asking:
    return Asking()


async def grant(world: World, *rules: dict[str, Any], subjects: tuple[str, ...] = ()) -> None:
    """Jane may do this in the namespace `default`."""
    await world.ok("POST", ROLES, role("granted", *rules))
    await world.ok("POST", BINDINGS, binding("granted", "granted", *subjects))


# evaluation


async def test_who_has_no_role_is_told_what_they_can_not_do(world: Asking) -> None:
    jane = world.as_user()
    here, everywhere = 'in API group "" in the namespace "default"', 'in API group "" at the cluster scope'
    for method, path, what, cannot in (
        ("GET", PODS, "pods is ", f'list resource "pods" {here}'),
        ("GET", f"{PODS}/a", 'pods "a" is ', f'get resource "pods" {here}'),
        ("GET", "/api/v1/nodes", "nodes is ", f'list resource "nodes" {everywhere}'),
        ("POST", f"{PODS}/a/eviction", 'pods "a" is ', f'create resource "pods/eviction" {here}'),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/x/deployments",
            "deployments.apps is ",
            'deletecollection resource "deployments" in API group "apps" in the namespace "x"',
        ),
        ("GET", "/metrics", "", 'get path "/metrics"'),
    ):
        refused = await jane.refused(403, method, path)
        assert refused["message"] == f'{what}forbidden: User "jane" cannot {cannot}'
        assert refused["reason"] == "Forbidden"


async def test_a_refusal_says_nothing_of_what_there_is(world: Asking) -> None:
    jane = world.as_user()
    await jane.refused(403, "GET", "/apis/example.com/v1/namespaces/default/unicorns")
    await jane.refused(403, "GET", "/api/v1/namespaces/nowhere")
    await world.refused(404, "GET", "/api/v1/namespaces/nowhere")


async def test_a_role_counts_in_its_namespace_only(world: Asking) -> None:
    await grant(world, rule("get,list,watch", "configmaps"))
    jane = world.as_user()
    await jane.ok("GET", CONFIG_MAPS)
    await jane.refused(403, "POST", CONFIG_MAPS, config_map())
    await jane.refused(403, "GET", "/api/v1/namespaces/kube-system/configmaps")
    await jane.refused(403, "GET", "/api/v1/configmaps")
    await world.as_user("john").refused(403, "GET", CONFIG_MAPS)


async def test_a_cluster_role_counts_where_it_is_bound(world: Asking) -> None:
    await world.ok("POST", CLUSTER_ROLES, role("reads", rule("list", "configmaps,nodes")))
    await world.ok("POST", BINDINGS, binding("reads", "reads", "Group readers", kind="ClusterRole"))
    reader = world.as_user("john", "readers")
    await reader.ok("GET", CONFIG_MAPS)
    await reader.refused(403, "GET", "/api/v1/configmaps")
    await reader.refused(403, "GET", "/api/v1/nodes")
    await world.ok("POST", CLUSTER_BINDINGS, binding("reads", "reads", "Group readers", kind="ClusterRole"))
    await reader.ok("GET", "/api/v1/configmaps")
    await reader.ok("GET", "/api/v1/nodes")


async def test_changes_of_roles_and_bindings_count_at_once(world: Asking) -> None:
    jane = world.as_user()
    await jane.refused(403, "GET", CONFIG_MAPS)
    await grant(world, rule("list", "configmaps"))
    await jane.ok("GET", CONFIG_MAPS)
    await world.ok("PATCH", f"{ROLES}/granted", {"rules": [rule("get", "configmaps")]}, MERGE)
    await jane.refused(403, "GET", CONFIG_MAPS)
    await world.ok("PATCH", f"{ROLES}/granted", {"rules": [rule("*", "*", "*")]}, MERGE)
    await jane.ok("GET", CONFIG_MAPS)
    await world.ok("PATCH", f"{BINDINGS}/granted", {"subjects": [{"kind": "User", "name": "john"}]}, MERGE)
    await jane.refused(403, "GET", CONFIG_MAPS)
    await world.as_user("john").ok("GET", CONFIG_MAPS)
    await world.ok("DELETE", f"{BINDINGS}/granted")
    await world.as_user("john").refused(403, "GET", CONFIG_MAPS)


async def test_names_of_resources_count(world: Asking) -> None:
    await grant(world, rule("get,delete,list", "configmaps", resourceNames=["mine"]))
    for name in ("mine", "other"):
        await world.ok("POST", CONFIG_MAPS, config_map(name))
    jane = world.as_user()
    await jane.ok("GET", f"{CONFIG_MAPS}/mine")
    await jane.refused(403, "GET", f"{CONFIG_MAPS}/other")
    await jane.refused(403, "GET", CONFIG_MAPS)
    listed = await jane.ok("GET", CONFIG_MAPS, fieldSelector="metadata.name=mine")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["mine"]


async def test_subresources_are_resources_of_their_own(world: Asking) -> None:
    await world.create_pod()
    await grant(world, rule("get", "pods"))
    jane = world.as_user()
    await jane.ok("GET", f"{PODS}/a")
    await jane.refused(403, "GET", f"{PODS}/a/log")
    await world.ok("PATCH", f"{ROLES}/granted", {"rules": [rule("get", "*/log")]}, MERGE)
    assert (await jane.call("GET", f"{PODS}/a/log")).status == 200
    await jane.refused(403, "GET", f"{PODS}/a")


async def test_paths_are_granted_with_wildcards(world: Asking) -> None:
    urls = {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/openapi/*"]}
    await world.ok("POST", CLUSTER_ROLES, role("paths", urls))
    await world.ok("POST", CLUSTER_BINDINGS, binding("paths", "paths", kind="ClusterRole"))
    jane = world.as_user()
    assert (await jane.call("GET", "/metrics")).status == 200
    assert (await jane.call("GET", "/openapi/v3")).status == 200
    assert (await world.as_user("john").call("GET", "/metrics")).status == 403


async def test_everybody_who_is_known_may_look_around(world: Asking) -> None:
    jane = world.as_user()
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/version", "/openapi/v2", "/readyz"):
        assert (await jane.call("GET", path)).status == 200, path


async def test_service_accounts_are_subjects(world: Asking) -> None:
    await grant(world, rule("list", "configmaps"), subjects=("ServiceAccount bot kube-system",))
    await world.as_user("system:serviceaccount:kube-system:bot").ok("GET", CONFIG_MAPS)
    await world.as_user("system:serviceaccount:default:bot").refused(403, "GET", CONFIG_MAPS)


async def test_a_binding_to_a_role_that_is_not_there_is_mentioned(world: Asking) -> None:
    await world.ok("POST", BINDINGS, binding("b", "missing"))
    refused = await world.as_user().refused(403, "GET", CONFIG_MAPS)
    assert refused["message"].endswith('"default": RBAC: role.rbac.authorization.k8s.io "missing" not found')


async def test_the_default_roles_do_what_they_are_called(world: Asking) -> None:
    for name in ("view", "edit", "admin"):
        await world.ok("POST", BINDINGS, binding(name, name, f"User {name}", kind="ClusterRole"))
    await world.as_user("view").ok("GET", CONFIG_MAPS)
    await world.as_user("view").refused(403, "GET", "/api/v1/namespaces/default/secrets")
    await world.as_user("view").refused(403, "POST", CONFIG_MAPS, config_map())
    await world.as_user("edit").ok("POST", CONFIG_MAPS, config_map())
    await world.as_user("edit").refused(403, "POST", ROLES, role("r"))
    await world.as_user("admin").ok("POST", ROLES, role("r", rule("list", "pods")))
    await world.as_user("system:kube-scheduler").ok("GET", "/api/v1/pods")
    await world.as_user("system:kube-scheduler").refused(403, "GET", "/api/v1/secrets")


async def test_who_may_change_may_not_thereby_create(world: Asking) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await grant(world, rule("update,patch,get", "configmaps,leases", ",coordination.k8s.io"))
    jane = world.as_user()
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    refused = await jane.refused(403, "PATCH", f"{CONFIG_MAPS}/a", applied, APPLY, fieldManager="me")
    assert 'configmaps "a" is forbidden: User "jane" cannot create resource "configmaps"' in refused["message"]
    await jane.refused(403, "PUT", f"{leases}/a", {"metadata": {"name": "a"}})
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    await jane.ok("PATCH", f"{CONFIG_MAPS}/a", applied, APPLY, fieldManager="me")


# granting


async def test_nobody_grants_what_they_do_not_have(world: Asking) -> None:
    await grant(
        world, rule("create,patch", "roles,rolebindings", "rbac.authorization.k8s.io"), rule("list", "configmaps")
    )
    jane = world.as_user()
    refused = await jane.refused(403, "POST", ROLES, role("r", rule("list,create", "configmaps,pods")))
    assert refused["message"] == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting '
        "to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["create"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "create"]}'
    )
    await jane.ok("POST", ROLES, role("r", rule("list", "configmaps")))
    await jane.refused(403, "PATCH", f"{ROLES}/r", {"rules": [rule("*", "*", "*")]}, MERGE)
    await jane.ok("PATCH", f"{ROLES}/r", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await jane.ok("POST", BINDINGS, binding("r", "r", "User john"))
    refused = await jane.refused(403, "POST", BINDINGS, binding("all", "cluster-admin", kind="ClusterRole"))
    assert "not currently held" in refused["message"]
    await jane.refused(404, "POST", BINDINGS, binding("none", "missing"))


async def test_who_may_escalate_or_bind_grants_more(world: Asking) -> None:
    group = "rbac.authorization.k8s.io"
    await grant(
        world,
        rule("create,update", "roles,rolebindings", group),
        rule("bind", "clusterroles", group, resourceNames=["view"]),
    )
    jane = world.as_user()
    await jane.ok("POST", BINDINGS, binding("v", "view", "User john", kind="ClusterRole"))
    await jane.refused(403, "POST", BINDINGS, binding("e", "edit", "User john", kind="ClusterRole"))
    await jane.refused(403, "POST", ROLES, role("r", rule("list", "pods")))
    await world.ok("PATCH", f"{ROLES}/granted", {"rules": [rule("create,escalate", "roles", group)]}, MERGE)
    await jane.ok("POST", ROLES, role("r", rule("list", "pods")))


@pytest.mark.looptime
async def test_aggregated_roles_follow_their_parts(world: Asking) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}
    async with world.running():
        await world.ok("POST", CLUSTER_ROLES, role("whole", aggregationRule=selector))
        part = role("part", rule("list", "configmaps"))
        part["metadata"]["labels"] = {"part": "yes"}
        await world.ok("POST", CLUSTER_ROLES, part)
        await world.ok("POST", BINDINGS, binding("whole", "whole", kind="ClusterRole"))
        await world.clock.sleep(1)
        await world.as_user().ok("GET", CONFIG_MAPS)
        await world.ok("DELETE", f"{CLUSTER_ROLES}/part")
        await world.clock.sleep(1)
        await world.as_user().refused(403, "GET", CONFIG_MAPS)


# asking


async def test_reviews_answer_as_requests_would(world: Asking) -> None:
    await grant(world, rule("get,list", "configmaps", resourceNames=["mine"]), rule("create", "pods/eviction"))
    group = "/apis/authorization.k8s.io/v1"

    async def may(user: str, **attributes: str) -> dict[str, Any]:
        spec = {"user": user, "resourceAttributes": {"namespace": "default", **attributes}}
        status: dict[str, Any] = (await world.ok("POST", f"{group}/subjectaccessreviews", {"spec": spec}))["status"]
        return status

    mine = await may(JANE, verb="get", resource="configmaps", name="mine")
    assert mine == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "granted/default" of Role "granted" to User "jane"',
    }
    assert await may(JANE, verb="get", resource="configmaps", name="other") == {"allowed": False}
    assert (await may(JANE, verb="create", resource="pods", subresource="eviction"))["allowed"]
    assert not (await may(JANE, verb="create", resource="pods"))["allowed"]
    assert not (await may("john", verb="get", resource="configmaps", name="mine"))["allowed"]
    jane = world.as_user()
    spec = {"resourceAttributes": {"namespace": "default", "verb": "list", "resource": "configmaps", "name": "mine"}}
    assert (await jane.ok("POST", f"{group}/selfsubjectaccessreviews", {"spec": spec}))["status"]["allowed"]
    path = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}
    assert not (await jane.ok("POST", f"{group}/selfsubjectaccessreviews", path))["status"]["allowed"]
    rules = (await jane.ok("POST", f"{group}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}))["status"]
    assert rule("get,list", "configmaps", resourceNames=["mine"]) in rules["resourceRules"]
    assert any("/healthz" in each["nonResourceURLs"] for each in rules["nonResourceRules"])
    await jane.refused(403, "POST", f"{group}/subjectaccessreviews", {"spec": {"user": "x", **spec}})


@pytest.mark.parametrize(
    ("plural", "spec", "words"),
    [
        ("subjectaccessreviews", {"user": "x"}, "exactly one of"),
        ("subjectaccessreviews", {"resourceAttributes": {}}, "at least one of user or group"),
        ("selfsubjectaccessreviews", {"resourceAttributes": {}, "nonResourceAttributes": {}}, "exactly one of"),
        ("namespaces/default/localsubjectaccessreviews", {"user": "x", "resourceAttributes": {}}, "must match"),
        ("namespaces/default/localsubjectaccessreviews", {"user": "x", "nonResourceAttributes": {}}, "disallowed"),
    ],
)
async def test_a_question_must_make_sense(world: Asking, plural: str, spec: dict[str, Any], words: str) -> None:
    refused = await world.refused(422, "POST", f"/apis/authorization.k8s.io/v1/{plural}", {"spec": spec})
    assert words in refused["message"]


# what roles may say


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (ROLES, role("r", rule("", "pods") | {"verbs": []}), "rules[0].verbs: Required value"),
        (ROLES, role("r", {"verbs": ["get"]}), "rules[0].resources: Required value"),
        (ROLES, role("r", {"verbs": ["get"], "nonResourceURLs": ["/x"]}), "namespaced rules cannot apply"),
        (CLUSTER_ROLES, role("r", rule("get", "pods", nonResourceURLs=["/x"])), "both regular resources and"),
        (CLUSTER_ROLES, role("r", aggregationRule={}), "at least one clusterRoleSelector required"),
        (BINDINGS, binding("b", ""), "roleRef.name: Required value"),
        (BINDINGS, binding("b", "r", kind="Pod"), 'roleRef.kind: Unsupported value: "Pod"'),
        (CLUSTER_BINDINGS, binding("b", "r"), 'roleRef.kind: Unsupported value: "Role"'),
        (BINDINGS, binding("b", "r", "Robot x"), 'subjects[0].kind: Unsupported value: "Robot"'),
        (CLUSTER_BINDINGS, binding("b", "r", "ServiceAccount x", kind="ClusterRole"), "[0].namespace: Required"),
    ],
)
async def test_roles_and_bindings_have_rules(world: Asking, path: str, body: dict[str, Any], words: str) -> None:
    assert words in (await world.refused(422, "POST", path, body))["message"]


async def test_the_role_of_a_binding_stays_the_same(world: Asking) -> None:
    created = await world.ok("POST", BINDINGS, binding("b", "r"))
    assert created["roleRef"]["apiGroup"] == created["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    refused = await world.refused(422, "PATCH", f"{BINDINGS}/b", {"roleRef": {"name": "other"}}, MERGE)
    assert "field is immutable" in refused["message"]


# pure parts


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, Attributes("list", resource="pods")),
        ("GET", "/api/v1/pods", {"watch": "1"}, Attributes("watch", resource="pods")),
        ("GET", "/api/v1/watch/pods", {}, Attributes("watch", resource="pods")),
        ("GET", "/api/v1/namespaces/x", {}, Attributes("get", resource="namespaces", namespace="x", name="x")),
        ("PUT", "/api/v1/namespaces/x/finalize", {}, Attributes("update", "", "namespaces", "finalize", "x", "x")),
        ("POST", "/api/v1/namespaces/x/pods/p/exec", {}, Attributes("create", "", "pods", "exec", "x", "p")),
        ("PATCH", "/apis/a.io/v1/things/t/status", {}, Attributes("patch", "a.io", "things", "status", "", "t")),
        ("DELETE", "/apis/a.io/v1/things", {}, Attributes("deletecollection", "a.io", "things")),
        ("HEAD", "/apis/a.io/v1/things/t", {}, Attributes("get", "a.io", "things", name="t")),
        ("GET", "/apis/a.io/v1", {}, Attributes("get", path="/apis/a.io/v1")),
        ("POST", "/metrics", {}, Attributes("post", path="/metrics")),
        ("GET", "/api/v1/pods", {"fieldSelector": "a=b,metadata.name=p"}, Attributes("list", "", "pods", name="p")),
        ("GET", "/api/v1/pods", {"fieldSelector": r"a!=b\,metadata.name=p"}, Attributes("list", resource="pods")),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name!=p"}, Attributes("list", resource="pods")),
    ],
)
def test_a_request_is_read_as_rules_see_it(method: str, path: str, query: dict[str, str], expected: Attributes) -> None:
    assert parse_request(Request(method, path, tuple(query.items()))).attributes == expected


@pytest.mark.parametrize(
    ("owned", "wanted", "covered"),
    [
        (Rule(("*",), ("*",), ("*",)), Rule(("get",), ("apps",), ("deployments/scale",), ("a",)), True),
        (Rule(("get",), ("",), ("*/log",)), Rule(("get",), ("",), ("pods/log",)), True),
        (Rule(("get",), ("",), ("pods",)), Rule(("get",), ("",), ("pods/log",)), False),
        (Rule(("get",), ("",), ("pods",), ("a",)), Rule(("get",), ("",), ("pods",)), False),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), Rule(("get",), ("",), ("pods",), ("b",)), True),
        (Rule(("get",), urls=("/a*",)), Rule(("get",), urls=("/abc",)), True),
        (Rule(("get",), urls=("/a/*",)), Rule(("get",), urls=("/*",)), False),
        (Rule(("get",), ("",), ("pods",)), Rule(("*",), ("",), ("pods",)), False),
    ],
)
def test_rules_cover_what_they_mean(owned: Rule, wanted: Rule, covered: bool) -> None:
    assert (not not_covered([owned], [wanted])) == covered


async def test_answers_are_remembered_within_bounds(world: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.apiserver.rbac.authorizer._MEMORY", 10)
    authorizer = world.server.authorizer
    for index in range(100):
        authorizer.allows(User(f"u{index}"), Attributes("get", resource="pods"))
    assert len(authorizer._answers) <= 10
