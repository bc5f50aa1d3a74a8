"""What every API server makes of a method and a path: which verb it is, and that nothing else is carried out."""

from __future__ import annotations

from typing import Any, Final

from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod
from tests.e2e.test_contract_roles import GROUP, MERGE, becomes, binding, role, rule
from tests.e2e.wire import Wire, on_the_wire

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
MAPS: Final = "/api/v1/namespaces/{ns}/configmaps"
OLD: Final = "/api/v1/watch/namespaces/{ns}"
PODS: Final = "/api/v1/namespaces/{ns}/pods"

#: Method, path, the verb that rules judge it by, and the answer to whoever holds it.
TABLE: Final = (
    ("GET", f"{MAPS}/a", "get", 200),
    ("GET", f"{MAPS}/a/", "get", 200),
    ("GET", MAPS, "list", 200),
    ("GET", f"{MAPS}/", "list", 200),
    ("PUT", f"{MAPS}/a", "update", 200),
    ("PATCH", f"{MAPS}/a", "patch", 200),
    ("POST", MAPS, "create", 409),
    # the old spelling of watches has no other method, whatever the account may do elsewhere
    ("PATCH", f"{OLD}/configmaps/a", "watch", 405),
    ("PUT", f"{OLD}/configmaps/a", "watch", 405),
    ("DELETE", f"{OLD}/configmaps/a", "watch", 405),
    ("DELETE", f"{OLD}/configmaps", "watch", 405),
    ("POST", f"{OLD}/configmaps", "watch", 405),
    ("HEAD", f"{OLD}/configmaps/a", "watch", 405),
    ("PATCH", f"{OLD}/pods/p/status", "watch", 404),
    ("GET", f"{OLD}/pods/p/log", "watch", 404),
    ("GET", f"{OLD}/pods/p/status", "watch", 404),
    # methods that mean something else, or nothing
    ("HEAD", f"{MAPS}/a", "get", 405),
    ("HEAD", MAPS, "list", 405),
    ("POST", f"{MAPS}/a", "create", 405),
    ("PUT", MAPS, "update", 405),
    ("PATCH", MAPS, "patch", 405),
    ("OPTIONS", f"{MAPS}/a", "", 405),
    ("TRACE", f"{MAPS}/a", "", 405),
    # parts of objects
    ("DELETE", f"{PODS}/p/status", "delete", 405),
    ("POST", f"{PODS}/p/status", "create", 405),
    ("PUT", f"{PODS}/p/eviction", "update", 405),
    ("GET", f"{PODS}/p/eviction", "get", 405),
    ("GET", f"{PODS}/p/binding", "get", 405),
    ("PATCH", f"{PODS}/p/binding", "patch", 405),
    ("GET", f"{PODS}/p/status/x", "get", 404),
    ("GET", f"{PODS}/p/nothing", "get", 404),
    ("GET", "/api/v1/namespaces/{ns}/finalize", "get", 405),
    # paths that look like others
    ("GET", f"{MAPS}//a", "list", 404),
    ("DELETE", f"{MAPS}//a", "deletecollection", 404),
    ("GET", f"{MAPS}/../configmaps/a", "get", 404),
    ("GET", f"{MAPS}/..", "get", 400),
    ("GET", "/api/v1/namespaces/{ns}/nodes", "list", 404),
    ("GET", "/api/v1/namespaces/{ns}/namespaces/{ns}", "get", 404),
    ("GET", "/api/v1/namespaces/{ns}/status/x", "get", 404),
    ("DELETE", f"{MAPS}/a", "delete", 200),
    ("DELETE", MAPS, "deletecollection", 200),
)


def account(verb: str) -> str:
    return f"only-{verb or 'others'}"


async def send(wire: Wire, method: str, path: str) -> int:
    body: Any = None
    if method in ("PUT", "POST"):
        body = {"metadata": {"name": "a"}, "data": {"changed": "yes"}}
    elif method == "PATCH":
        body = {"data": {"changed": "yes"}}
    answer = await wire.send(method, path, body, content_type=MERGE if method == "PATCH" else "application/json")
    return answer.status


async def test_an_account_with_one_verb_does_what_the_verb_means_and_nothing_else(cluster: Cluster) -> None:
    namespace = cluster.namespace
    async with on_the_wire(cluster) as admin:
        for verb in VERBS:
            name = account(verb)
            rules = [rule(verb, "*", "*"), rule("list", "podtemplates")]
            assert (await admin.create(f"{GROUP}/v1/roles", role(name, *rules))).status == 201
            assert (await admin.create(f"{GROUP}/v1/rolebindings", binding(name, name, name))).status == 201
        others = [rule("", "*", "*"), rule("list", "podtemplates")]
        assert (await admin.create(f"{GROUP}/v1/roles", role(account(""), *others))).status == 201
        assert (await admin.create(f"{GROUP}/v1/rolebindings", binding("o", account(""), account("")))).status == 201
        assert (await admin.send("POST", admin.path("pods"), pod("p", scheduler="nobody"))).status == 201
        for holder in ("", *VERBS):
            async with on_the_wire(cluster, user=account(holder)) as wire:
                await becomes(cluster, 200, lambda wire=wire: wire.list("podtemplates"))  # type: ignore[misc]
                for method, path, verb, allowed in TABLE:
                    if verb == holder:
                        await admin.create("configmaps", {"metadata": {"name": "a"}})
                    status = await send(wire, method, path.format(ns=namespace))
                    expected = allowed if verb == holder else 403
                    assert status == expected, f"{account(holder)}: {method} {path} was answered with {status}"
                    if status >= 400 and method not in ("GET", "HEAD"):
                        unchanged = await admin.get("configmaps", "a")
                        assert unchanged.status == 404 or "data" not in unchanged.body, (holder, method, path)
                    if status < 300:
                        await admin.delete("configmaps", "a")


async def test_objects_of_all_namespaces_are_read_and_not_written(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        selector = {"labelSelector": "nobody=has-it"}
        assert (await admin.send("GET", "/api/v1/configmaps", **selector)).status == 200
        assert (await admin.send("DELETE", "/api/v1/configmaps", **selector)).status == 405
        assert (await admin.send("POST", "/api/v1/configmaps", {"metadata": {"name": "a"}})).status == 405
        # Of parameters that are given twice the first counts.
        assert (await admin.send("GET", "/api/v1/configmaps", limit="1", **selector)).status == 200


async def test_paths_that_name_no_resource_are_answered_as_they_are_written(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        for path, status in (
            ("/version", 200),
            ("/version/", 200),
            ("/api/", 200),
            ("/apis/apps/v1/", 200),
            ("/metrics", 200),
            ("/metrics/", 404),
            ("//version", 404),
            ("/healthz", 200),
            ("/healthz/", 404),
            ("/openapi/v2/", 404),
            ("//api/v1/namespaces", 404),
        ):
            assert (await admin.send("GET", path)).status == status, path
