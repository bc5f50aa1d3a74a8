"""Accounts that hold one verb each ask everything in every way: only what their own verb means is carried out.

The judge is independent of how the server reads a request: it goes by the HTTP method, by what changed in the store and
by what came back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pytest

from bosket.apiserver import ApiServer
from bosket.apiserver.handlers.watch import Watcher
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.store.resource_store import Event
from bosket.kube.transport import Request, Response
from bosket.runtime.clock import SystemClock
from tests.fuzz.fuzzed import DEFINITIONS, MISTAKES

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: What rules may have as well, and no request about an object means.
OTHER_VERBS: Final = ["proxy", "bind", "escalate", "impersonate", "use", ""]
#: The verbs that an HTTP method can mean.
MEANT: Final = {
    "GET": {"get", "list", "watch"},
    "POST": {"create"},
    "PUT": {"update"},
    "PATCH": {"patch"},
    "DELETE": {"delete", "deletecollection"},
}
METHODS: Final = (*MEANT, "HEAD", "OPTIONS", "TRACE", "CONNECT", "delete", "Patch", "")
SUBRESOURCES: Final = (
    "status", "scale", "log", "exec", "attach", "portforward", "proxy", "binding", "eviction", "finalize", "token",
    "resize", "ephemeralcontainers", "nothing",
)  # fmt: skip
QUERIES: Final[tuple[tuple[tuple[str, str], ...], ...]] = (
    (),
    (("watch", "true"),),
    (("watch", "0"), ("watch", "1"), ("dryRun", "All")),
    (("fieldSelector", "metadata.name=mine"), ("fieldSelector", "metadata.name=other")),
)
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
#: Is in every object that somebody could read, with its namespace and name.
MARKER: Final = "kept-by"
CONTAINERS: Final = [{"name": "c", "image": "i"}]
SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True)
class Resource:
    """One kind of which there are objects: `mine` and `other` in each namespace, or just so."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    content: dict[str, Any]

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def document(self, namespace: str, name: str) -> dict[str, Any]:
        where = {"namespace": namespace} if self.namespaced else {}
        metadata = {"name": name, "annotations": {MARKER: f"{where.get('namespace', '')}/{name}"}, **where}
        version = f"{self.group}/{self.version}" if self.group else self.version
        return {"apiVersion": version, "kind": self.kind, "metadata": metadata, **self.content}


RESOURCES: Final = (
    Resource("", "v1", "configmaps", "ConfigMap", namespaced=True, content={"data": {"a": "b"}}),
    Resource("", "v1", "pods", "Pod", namespaced=True, content={"spec": {"containers": CONTAINERS}}),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, content={}),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, content={}),
    Resource("example.com", "v1", "things", "Thing", namespaced=True, content={"spec": {"replicas": 1}}),
    # Named as the parts of a namespace: whoever reads its paths twice may read them differently.
    Resource("example.com", "v1", "status", "Status", namespaced=True, content={"spec": {"replicas": 1}}),
)
NAMESPACES: Final = ("near", "far")


def definition(resource: Resource) -> dict[str, Any]:
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x"}},
    }
    names = {"plural": resource.plural, "singular": resource.kind.lower() + "1", "kind": resource.kind + "Kind"}
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{resource.plural}.{resource.group}"}, "spec": spec}


def paths() -> list[str]:
    """Every way to write where something is, and some that aren't."""
    found: dict[str, None] = {"/api/v1/namespaces/near/bindings": None}
    for resource in RESOURCES:
        near = "namespaces/near/" if resource.namespaced else ""
        names = (*NAMESPACES, "new") if resource.plural == "namespaces" else ("mine", "other", "new")
        for home in dict.fromkeys((near, "namespaces/far/", "", "namespaces//")):
            collection = f"{resource.base}/{home}{resource.plural}"
            found |= dict.fromkeys((collection, *(f"{collection}/{name}" for name in names)))
        collection = f"{resource.base}/{near}{resource.plural}"
        whole = f"{collection}/{names[0]}"
        found |= dict.fromkeys(f"{collection}/{name}/{part}" for name in names[:2] for part in SUBRESOURCES)
        for odd in (f"{collection}/", f"{whole}/", f"{collection}//{names[0]}", f"/{whole}", f"{whole}/status/x"):
            found |= dict.fromkeys((odd, odd.replace("/v1/", "/v1//"), f"{collection}//status", f"{whole}/../other"))
        for prefix in ("watch/", "proxy/", "watch/watch/"):
            parts = SUBRESOURCES if prefix == "watch/" else ("status",)
            for plain in (collection, whole, f"{whole}/", *(f"{whole}/{part}" for part in parts)):
                found[plain.replace("/v1/", f"/v1/{prefix}", 1)] = None
    return list(found)


class Tried:
    """A server with accounts and objects, and what they do to it."""

    def __init__(self) -> None:
        self.server = ApiServer(clock=SystemClock())
        self.admin = self.server.transport()
        self.events: list[Event] = []

    async def begin(self) -> None:
        for resource in RESOURCES:
            if resource.group:
                body = definition(resource)
                assert (await self.tell("POST", DEFINITIONS, body)).status == 201
        for verb in VERBS:
            await self.grant(f"only-{verb}", {"verbs": [verb], "apiGroups": ["*"], "resources": ["*"]})
        await self.grant("strange", {"verbs": OTHER_VERBS, "apiGroups": ["*"], "resources": ["*"]})
        everything = {"verbs": ["*"], "apiGroups": ["*"]}
        await self.grant("named", {**everything, "resources": ["*"], "resourceNames": ["mine", "near"]})
        await self.grant("housed", {**everything, "resources": ["*"]}, namespace="near")
        await self.grant("partial", {**everything, "resources": ["*/status"]})
        await self.grant("pathfinder", {"verbs": ["*"], "nonResourceURLs": ["/metrics/*", "/version/*", "//*", "/x*"]})
        for kind in self.server.registry:
            kind.objects.listen(self.events.append)

    async def grant(self, user: str, rule: dict[str, Any], namespace: str = "") -> None:
        if namespace:
            await self.tell("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        home = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
        role = {"metadata": {"name": user}, "rules": [rule]}
        assert (await self.tell("POST", f"{home}roles", role)).status == 201
        reference = {"kind": "Role" if namespace else "ClusterRole", "name": user}
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **reference},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        assert (await self.tell("POST", f"{home}rolebindings", binding)).status == 201

    async def tell(self, method: str, path: str, body: dict[str, Any]) -> Response:
        return await self.admin.request(Request(method, path, (), {}, json.dumps(body).encode()))

    async def restore(self) -> None:
        """Put back what the last request took, and take what it made."""
        for namespace in NAMESPACES:
            await self.tell("POST", "/api/v1/namespaces", RESOURCES[3].document("", namespace))
        for resource in RESOURCES:
            if resource.namespaced:
                for namespace, name in product(NAMESPACES, ("mine", "other", "new")):
                    path = f"{resource.base}/namespaces/{namespace}/{resource.plural}"
                    if name == "new":
                        await self.tell("DELETE", f"{path}/new", {"gracePeriodSeconds": 0})
                    else:
                        await self.tell("POST", path, kinded(resource, namespace, name))
            else:
                await self.tell("DELETE", f"{resource.base}/{resource.plural}/new", {})
        self.events.clear()

    async def ask(
        self, user: str, method: str, path: str, query: Any, body: bytes, content_type: str
    ) -> tuple[int, Any]:
        """Status and body; None for the body of a watch, whose first chunk is looked at by nobody."""
        request = Request(method, path, query, {"content-type": content_type}, body)
        answer = await self.server.handle(request, User(user, ("system:authenticated",)))
        if isinstance(answer, Watcher):
            answer.close()
            return answer.status, None
        return answer.status, answer.body


def kinded(resource: Resource, namespace: str, name: str) -> dict[str, Any]:
    document = resource.document(namespace, name)
    if resource.group:
        document["kind"] += "Kind"
    return document


def bodies(method: str, path: str) -> Iterator[tuple[bytes, str]]:
    """What a client that means well would send there."""
    parts = [part for part in path.split("/") if part]
    resource = next((each for each in RESOURCES if each.plural in parts[3:] and each.base in path), RESOURCES[0])
    namespace = next((name for name in NAMESPACES if name in parts), "")
    name = next((name for name in ("mine", "other", "new") if name in parts), "new")
    if resource.plural == "namespaces":
        name = namespace or name
    whole = kinded(resource, namespace, name)
    forms: dict[str, Any] = {
        "eviction": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
        "binding": {"kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}},
        "bindings": {"kind": "Binding", "metadata": {"name": "mine"}, "target": {"kind": "Node", "name": "n"}},
        "scale": {"spec": {"replicas": 7}},
        "token": {"spec": {}},
    }
    last = parts[-1]
    change: dict[str, Any] = {"metadata": {"labels": {"changed": "yes"}}, "status": {"changed": "yes"}}
    if method.upper() == "PATCH":
        yield json.dumps(forms.get(last, change)).encode(), MERGE
        yield json.dumps({**whole, "metadata": {**whole["metadata"], **change["metadata"]}}).encode(), APPLY
    elif method.upper() in ("POST", "PUT"):
        whole["metadata"]["labels"] = {"changed": "yes"}
        yield json.dumps(forms.get(last, {**whole, "status": {"changed": "yes"}})).encode(), "application/json"
    else:
        yield b"", "application/json"


@pytest.fixture
async def tried() -> Tried:
    found = Tried()
    await found.begin()
    await found.restore()
    return found


def shown(user: str, method: str, path: str, query: Any, status: int, events: list[Event]) -> str:
    changes = [(event.type, event.resource_store.plural, event.entry.namespace, event.entry.name) for event in events]
    return f"{user}: {method} {path} {dict(query)} was answered with {status} and did {changes}"


def judge(user: str, method: str, path: str, status: int, body: Any, events: list[Event]) -> bool:
    """Whether an answer and what happened are what this account's rights mean."""
    verb = user.removeprefix("only-")
    meant = MEANT.get(method, set())
    if status >= 400:
        return not events
    types = {event.type for event in events}
    names = {(event.entry.namespace, event.entry.name) for event in events}
    if user.startswith("only-"):
        if verb not in meant:
            return False
        if verb in ("get", "list", "watch"):
            is_list = body is not None and b"List" in body[:80]
            return not events and (body is None) == (verb == "watch") and is_list == (verb == "list")
        done = path.rstrip("/").rpartition("/")[2]
        if verb == "create":
            return types <= {"ADDED"} or done in ("binding", "bindings", "eviction")
        if verb in ("update", "patch"):
            return types <= {"MODIFIED"}
        return verb == "deletecollection" or (len(names) <= 1 and "ADDED" not in types)
    if user == "named":
        return all(name in ("mine", "near") for _, name in names) and not any(
            f'"{MARKER}":"{place}"'.encode() in (body or b"") for place in ("near/other", "far/other", "/far")
        )
    if user == "housed":
        return all(place == "near" or (place, name) == ("", "near") for place, name in names) and not any(
            f'"{MARKER}":"{place}'.encode() in (body or b"") for place in ("far", "/far")
        )
    if user == "partial":  # nothing but what is in status, and metadata, as in Kubernetes
        return types <= {"MODIFIED"} and all(
            event.previous is not None and event.entry.decode().get("spec") == event.previous.decode().get("spec")
            for event in events
        )
    return False


async def test_only_what_the_verb_of_an_account_means_is_carried_out(tried: Tried) -> None:
    users = [*(f"only-{verb}" for verb in VERBS), "strange", "named", "housed", "partial"]
    asked, done = 0, dict.fromkeys(users, 0)
    for path, method in product(paths(), METHODS):
        for body, content_type in bodies(method, path):
            queries = QUERIES if method == "GET" else QUERIES[::2] if method in MEANT else QUERIES[:1]
            for query, user in product(queries, users):
                status, answer = await tried.ask(user, method, path, query, body, content_type)
                asked += 1
                if status == 403 and not tried.events:
                    continue
                said = shown(user, method, path, query, status, tried.events)
                assert status not in MISTAKES, said
                assert judge(user, method, path, status, answer, tried.events), said
                assert "dryRun" not in dict(query) or not tried.events, said
                if status < 400:
                    done[user] += 1
                if tried.events:
                    await tried.restore()
    print(f"{asked} requests; carried out: {done}")
    for user in users:  # the accounts could do something at all: nothing is proven by refusals alone
        assert (done[user] > 0) == (user != "strange"), user


async def test_a_path_is_answered_only_as_it_was_judged(tried: Tried) -> None:
    odd = ("/metrics/", "//metrics", "/version/../metrics", "//api/v1/secrets", "/x/../metrics", "/metrics//")
    for method, path in product(("GET", "HEAD", "DELETE"), odd):
        status, _ = await tried.ask("pathfinder", method, path, (), b"", "application/json")
        assert status in (403, 404, 405), (method, path)
