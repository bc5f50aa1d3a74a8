"""What every API server promises to those who grant rights: roles, bindings, reviews, and no escalation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from bosket.api.object import ObjectMeta
from bosket.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from bosket.apiserver.rbac.defaults import default_roles
from tests.e2e.cluster import Cluster
from tests.e2e.wire import Answer, Wire, on_the_wire

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"{GROUP}/v1/roles"
BINDINGS: Final = f"{GROUP}/v1/rolebindings"
REVIEWS: Final = "/apis/authorization.k8s.io/v1"
MERGE: Final = "application/merge-patch+json"


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {"verbs": verbs.split(","), "resources": resources.split(","), "apiGroups": groups.split(","), **more}


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, role_name: str, user: str, kind: str = "Role") -> dict[str, Any]:
    subject = {"kind": "User", "name": user, "apiGroup": GROUP}
    reference = {"kind": kind, "name": role_name, "apiGroup": GROUP}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


async def becomes(cluster: Cluster, status: int, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer as soon as it has this status: a change of roles may take a moment to be seen everywhere."""

    async def is_so() -> Answer:
        answer = await ask()
        assert answer.status == status, answer
        return answer

    return await cluster.eventually(is_so)


async def grant(cluster: Cluster, admin: Wire, *rules: dict[str, Any], user: str = "jane") -> None:
    """A role for the user in the test's namespace, and proof that it counts."""
    marked = (*rules, rule("list", "podtemplates"))
    assert (await admin.create(ROLES, role("granted", *marked))).status == 201
    assert (await admin.create(BINDINGS, binding("granted", "granted", user))).status == 201
    async with on_the_wire(cluster, user=user) as wire:
        await becomes(cluster, 200, lambda: wire.list("podtemplates"))


async def test_who_has_no_role_is_told_what_they_can_not_do(cluster: Cluster) -> None:
    here, everywhere = f'in the namespace "{cluster.namespace}"', "at the cluster scope"
    async with on_the_wire(cluster, user="jane") as jane:
        for method, path, what, cannot in (
            ("GET", jane.path("pods"), "pods", f'list resource "pods" in API group "" {here}'),
            ("GET", jane.path("pods", "a"), 'pods "a"', f'get resource "pods" in API group "" {here}'),
            (
                "POST",
                jane.path("pods", "a/eviction"),
                'pods "a"',
                f'create resource "pods/eviction" in API group "" {here}',
            ),
            (
                "DELETE",
                jane.path("apps/v1/deployments"),
                "deployments.apps",
                f'deletecollection resource "deployments" in API group "apps" {here}',
            ),
            ("GET", "/api/v1/nodes", "nodes", f'list resource "nodes" in API group "" {everywhere}'),
            (
                "GET",
                "/api/v1/namespaces/x",
                'namespaces "x"',
                'get resource "namespaces" in API group "" in the namespace "x"',
            ),
            (
                "GET",
                "/apis/none.io/v1/things",
                "things.none.io",
                f'list resource "things" in API group "none.io" {everywhere}',
            ),
        ):
            answer = await jane.send(method, path)
            assert (answer.status, answer.reason) == (403, "Forbidden")
            assert answer.message == f'{what} is forbidden: User "jane" cannot {cannot}'
        assert (await jane.send("GET", "/metrics")).message == 'forbidden: User "jane" cannot get path "/metrics"'
        details = (await jane.get("pods", "a")).body["details"]
        assert details == {"name": "a", "kind": "pods"}


async def test_everybody_who_is_known_may_look_around_and_ask_about_themselves(cluster: Cluster) -> None:
    async with on_the_wire(cluster, user="jane") as jane:
        for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/version", "/openapi/v2", "/readyz", "/healthz"):
            assert (await jane.send("GET", path)).status == 200, path
        own = await jane.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert own.body["status"]["userInfo"] == {"username": "jane", "groups": ["system:authenticated"]}


async def test_rules_count_in_their_namespace_by_verb_name_and_subresource(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user="jane") as jane:
        for name in ("mine", "other"):
            await admin.create("configmaps", {"metadata": {"name": name}})
        await grant(
            cluster,
            admin,
            rule("get,list,delete", "configmaps", resourceNames=["mine"]),
            rule("create", "pods/eviction"),
            rule("get", "*/scale", "apps"),
            rule("*", "leases", "*"),
        )
        assert (await jane.get("configmaps", "mine")).status == 200
        assert (await jane.get("configmaps", "other")).status == 403
        assert (await jane.list("configmaps")).status == 403
        assert (await jane.list("configmaps", fieldSelector="metadata.name=mine")).status == 200
        assert (await jane.create("configmaps", {"metadata": {"name": "new"}})).status == 403
        assert (await jane.send("GET", "/api/v1/namespaces/default/configmaps/mine")).status == 403
        assert (await jane.send("GET", "/api/v1/podtemplates")).status == 403
        gone = {"metadata": {"name": "none"}}
        assert (await jane.send("POST", jane.path("pods", "none/eviction"), gone)).status == 404
        assert (await jane.send("DELETE", jane.path("pods", "none"))).status == 403
        assert (await jane.send("GET", jane.path("apps/v1/deployments", "none/scale"))).status == 404
        assert (await jane.send("GET", jane.path("apps/v1/deployments", "none"))).status == 403
        assert (await jane.list("coordination.k8s.io/v1/leases")).status == 200
        assert (await jane.delete("configmaps", "mine")).status == 200


async def test_changes_of_roles_and_bindings_count(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user="jane") as jane:
        await grant(cluster, admin, rule("list", "configmaps"))
        assert (await jane.list("configmaps")).status == 200
        wider = {"rules": [rule("list", "secrets")]}
        assert (await admin.send("PATCH", admin.path(ROLES, "granted"), wider, content_type=MERGE)).status == 200
        await becomes(cluster, 403, lambda: jane.list("configmaps"))
        await becomes(cluster, 200, lambda: jane.list("secrets"))
        changed = {"subjects": [{"kind": "Group", "name": "readers", "apiGroup": GROUP}]}
        assert (await admin.send("PATCH", admin.path(BINDINGS, "granted"), changed, content_type=MERGE)).status == 200
        await becomes(cluster, 403, lambda: jane.list("secrets"))
        async with on_the_wire(cluster, user="john", groups=["readers"]) as john:
            await becomes(cluster, 200, lambda: john.list("secrets"))
            assert (await admin.delete(ROLES, "granted")).status == 200
            gone = await becomes(cluster, 403, lambda: john.list("secrets"))
            assert gone.message.endswith('RBAC: role.rbac.authorization.k8s.io "granted" not found')


async def test_cluster_roles_count_where_they_are_bound_and_have_paths(cluster: Cluster) -> None:
    name = cluster.namespace
    rules = (
        PolicyRule(verbs=("list",), apiGroups=("",), resources=("configmaps", "nodes")),
        PolicyRule(verbs=("get",), nonResourceURLs=("/metrics", "/debug/*")),
    )
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user=f"{name}-jane") as jane:
        await cluster.add(ClusterRole(metadata=ObjectMeta(name=name), rules=rules))
        await admin.create(BINDINGS, binding("reads", name, f"{name}-jane", "ClusterRole"))
        await becomes(cluster, 200, lambda: jane.list("configmaps"))
        assert (await jane.send("GET", "/api/v1/configmaps")).status == 403
        assert (await jane.send("GET", "/api/v1/nodes")).status == 403
        assert (await jane.send("GET", "/metrics")).status == 403
        subject = Subject(kind="User", name=f"{name}-jane", apiGroup=GROUP)
        reference = RoleRef(kind="ClusterRole", name=name, apiGroup=GROUP)
        await cluster.add(ClusterRoleBinding(metadata=ObjectMeta(name=name), subjects=(subject,), roleRef=reference))
        await becomes(cluster, 200, lambda: jane.send("GET", "/api/v1/nodes"))
        assert (await jane.send("GET", "/api/v1/configmaps")).status == 200
        assert (await jane.send("GET", "/metrics")).status == 200
        assert (await jane.send("GET", "/debug/nothing-here")).status == 404
        assert (await jane.send("GET", "/logs")).status == 403


async def test_nobody_grants_what_they_do_not_have(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user="jane") as jane:
        await grant(
            cluster,
            admin,
            rule("create,patch", "roles,rolebindings", GROUP),
            rule("bind", "clusterroles", GROUP, resourceNames=["view"]),
            rule("list", "configmaps"),
        )
        refused = await jane.create(ROLES, role("r", rule("list,create", "configmaps,pods")))
        assert refused.status == 403
        assert refused.message == (
            'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["create"]}\n'
            '{APIGroups:[""], Resources:["pods"], Verbs:["list" "create"]}'
        )
        assert (await jane.create(ROLES, role("r", rule("list", "configmaps")))).status == 201
        more = {"rules": [rule("*", "*", "*")]}
        assert (await jane.send("PATCH", jane.path(ROLES, "r"), more, content_type=MERGE)).status == 403
        label = {"metadata": {"labels": {"a": "b"}}}
        assert (await jane.send("PATCH", jane.path(ROLES, "r"), label, content_type=MERGE)).status == 200
        await becomes(cluster, 201, lambda: jane.create(BINDINGS, binding("r", "r", "john")))
        assert (await jane.create(BINDINGS, binding("v", "view", "john", "ClusterRole"))).status == 201
        for wide in ("edit", "cluster-admin"):
            refused = await jane.create(BINDINGS, binding(wide, wide, "john", "ClusterRole"))
            assert refused.status == 403
            assert "is attempting to grant RBAC permissions not currently held" in refused.message
        assert (await jane.create(BINDINGS, binding("none", "missing", "john"))).status == 404
        await admin.create(ROLES, role("escalates", rule("escalate", "roles", GROUP)))
        await admin.create(BINDINGS, binding("escalates", "escalates", "jane"))
        await becomes(cluster, 201, lambda: jane.create(ROLES, role("wide", rule("*", "*", "*"))))


async def test_who_may_change_may_not_thereby_create(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user="jane") as jane:
        await grant(cluster, admin, rule("update,patch,get", "configmaps,leases", ",coordination.k8s.io"))
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
        refused = await jane.apply("configmaps", "a", applied, "me")
        assert refused.status == 403
        assert 'configmaps "a" is forbidden: User "jane" cannot create resource "configmaps"' in refused.message
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
        assert (await jane.replace("coordination.k8s.io/v1/leases", "a", lease)).status == 403
        assert (await admin.create("configmaps", {"metadata": {"name": "a"}})).status == 201
        assert (await jane.apply("configmaps", "a", applied, "me")).status == 200


async def test_reviews_answer_as_requests_would(cluster: Cluster) -> None:
    namespace = cluster.namespace
    async with on_the_wire(cluster) as admin, on_the_wire(cluster, user="jane") as jane:
        await grant(cluster, admin, rule("get", "configmaps", resourceNames=["mine"]), rule("create", "pods/eviction"))

        async def may(user: str, **attributes: str) -> dict[str, Any]:
            spec = {"user": user, "resourceAttributes": {"namespace": namespace, **attributes}}
            answer = await admin.send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
            assert answer.status == 201
            status: dict[str, Any] = answer.body["status"]
            return status

        assert await may("jane", verb="get", resource="configmaps", name="mine") == {
            "allowed": True,
            "reason": f'RBAC: allowed by RoleBinding "granted/{namespace}" of Role "granted" to User "jane"',
        }
        assert await may("jane", verb="get", resource="configmaps", name="other") == {"allowed": False}
        assert (await may("jane", verb="create", resource="pods", subresource="eviction"))["allowed"]
        assert not (await may("jane", verb="create", resource="pods"))["allowed"]
        assert not (await may("john", verb="get", resource="configmaps", name="mine"))["allowed"]
        own = {"resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "podtemplates"}}
        answer = await jane.send("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": own})
        assert answer.body["status"]["allowed"]
        path = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
        answer = await jane.send("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": path})
        assert not answer.body["status"]["allowed"]
        answer = await jane.send("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "x", **own}})
        assert answer.status == 403
        local = f"{REVIEWS}/namespaces/{namespace}/localsubjectaccessreviews"
        answer = await admin.send("POST", local, {"spec": {"user": "jane", **own}})
        assert answer.body["status"]["allowed"]
        answer = await jane.send("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": namespace}})
        status = answer.body["status"]
        assert rule("get", "configmaps", resourceNames=["mine"]) in status["resourceRules"]
        assert any("/healthz" in each["nonResourceURLs"] for each in status["nonResourceRules"])
        assert status["incomplete"] is False
        for plural, spec, words in (
            ("subjectaccessreviews", {"user": "x"}, "exactly one of"),
            ("subjectaccessreviews", own, "at least one of user or group"),
            (f"namespaces/{namespace}/localsubjectaccessreviews", {"user": "x", **path}, "disallowed"),
            (
                f"namespaces/{namespace}/localsubjectaccessreviews",
                {"user": "x", "resourceAttributes": {"namespace": "other", "verb": "get"}},
                "must match",
            ),
        ):
            answer = await admin.send("POST", f"{REVIEWS}/{plural}", {"spec": spec})
            assert (answer.status, words in answer.message) == (422, True), answer.message


async def test_kubectl_asks_what_may_be_done(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        await grant(cluster, admin, rule("get,list", "configmaps"))
        can = ("auth", "can-i", "--as=jane")
        assert (await cluster.kubectl(*can, "list", "configmaps")).strip() == "yes"
        assert (await cluster.kubectl(*can, "delete", "configmaps", code=1)).strip().endswith("no")
        assert (await cluster.kubectl("auth", "can-i", "*", "*")).strip() == "yes"
        listed = await cluster.kubectl(*can, "--list")
        assert any(line.split()[:1] == ["configmaps"] and "[get list]" in line for line in listed.splitlines())
        forbidden = await cluster.kubectl("--as=jane", "get", "pods", code=1)
        assert 'pods is forbidden: User "jane" cannot list resource "pods"' in forbidden


async def test_aggregated_roles_follow_their_parts(cluster: Cluster) -> None:
    name = cluster.namespace
    path = f"/apis/{GROUP}/v1/clusterroles"
    async with on_the_wire(cluster) as admin:
        part = PolicyRule(verbs=("list",), apiGroups=("",), resources=("configmaps",))
        labels = {"part-of": name}
        await cluster.add(ClusterRole(metadata=ObjectMeta(name=f"{name}-part", labels=labels), rules=(part,)))
        selectors = {"clusterRoleSelectors": [{"matchLabels": labels}]}
        whole = {"metadata": {"name": f"{name}-whole"}, "aggregationRule": selectors, "rules": []}
        assert (await admin.send("POST", path, whole)).status == 201

        async def rules() -> Any:
            return (await admin.send("GET", f"{path}/{name}-whole")).body.get("rules")

        async def has_its_part() -> bool:
            return bool(await rules() == [rule("list", "configmaps")])

        await cluster.eventually(has_its_part)
        more = {"rules": [rule("get", "configmaps")]}
        await admin.send("PATCH", f"{path}/{name}-part", more, content_type=MERGE)

        async def has_another_part() -> bool:
            return bool(await rules() == [rule("get", "configmaps")])

        await cluster.eventually(has_another_part)
        assert (await admin.send("DELETE", f"{path}/{name}-whole")).status == 200


async def test_the_default_roles_and_bindings_are_there(cluster: Cluster) -> None:
    compared = 0
    async with on_the_wire(cluster) as admin:
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
            listed = (await admin.send("GET", f"/apis/{GROUP}/v1/{plural}")).body["items"]
            found = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in listed}
            for each in (doc for kind, doc in default_roles() if kind == plural):
                there = found[each["metadata"].get("namespace", ""), each["metadata"]["name"]]
                for key in ("rules", "subjects", "roleRef", "aggregationRule"):
                    assert there.get(key) == each.get(key), (there["metadata"]["name"], key)
                assert each["metadata"]["labels"].items() <= there["metadata"]["labels"].items()
                compared += 1
    assert compared > 130


async def test_roles_and_bindings_have_rules(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        urls = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
        robot = binding("b", "r", "x")
        robot["subjects"][0]["kind"] = "Robot"
        for resource, body, field in (
            (ROLES, role("r", rule("", "pods") | {"verbs": []}), "rules[0].verbs"),
            (ROLES, role("r", {"verbs": ["get"], "apiGroups": [""]}), "rules[0].resources"),
            (ROLES, role("r", urls), "rules[0].nonResourceURLs"),
            (BINDINGS, binding("b", "", "x"), "roleRef.name"),
            (BINDINGS, binding("b", "r", "x", "Pod"), "roleRef.kind"),
            (BINDINGS, robot, "subjects[0].kind"),
        ):
            answer = await admin.create(resource, body)
            assert answer.status == 422, body
            assert field in [where for _, where in answer.causes]
        assert (await admin.create(BINDINGS, binding("b", "r", "x"))).status == 201
        other = {"roleRef": {"name": "other"}}
        answer = await admin.send("PATCH", admin.path(BINDINGS, "b"), other, content_type=MERGE)
        assert (answer.status, "immutable" in answer.message) == (422, True)
