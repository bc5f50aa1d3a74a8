"""What every API server promises about admission webhooks: who is asked, what about, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from bosket.kube.client import PatchType
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, deployment, pod
from tests.e2e.webhook_server import Judge, Review, WebhookServer, allow, deny, patching, rule, serving_webhooks
from tests.e2e.wire import Answer, Wire, on_the_wire

MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"
GROUP = "/apis/admissionregistration.k8s.io/v1"
ADD_B = {"op": "add", "path": "/data/b", "value": "2"}


@dataclass
class Hooks:
    """A webhook server, and the configurations that a test makes for it."""

    cluster: Cluster
    server: WebhookServer
    wire: Wire
    _made: list[str] = field(default_factory=list)

    def hook(self, name: str, judge: Judge = allow, **more: Any) -> Review:
        return self.server.hook(f"{name}.test.example", judge, self.cluster.namespace, **more)

    async def register(self, plural: str, *hooks: Review, wait: bool = True) -> Answer:
        """Make a configuration, and wait until the server goes by it."""
        name = f"{self.cluster.namespace}-{len(self._made)}"
        path = f"{GROUP}/{plural}"
        marker = self.hook(f"ready-{len(self._made)}", rules=[rule("secrets", "CREATE")])
        answer = await self.wire.send("POST", path, {"metadata": {"name": name}, "webhooks": [*hooks, marker]})
        if answer.status != 201:
            return answer
        self._made.append(f"{path}/{name}")

        async def in_force() -> bool:
            await self.wire.create("secrets", {"metadata": {"name": "s"}}, dryRun="All")
            return f"/ready-{len(self._made) - 1}" in self.server.asked

        if wait:
            await self.cluster.eventually(in_force)
        return answer

    async def create(self, name: str, **metadata: Any) -> Answer:
        return await self.wire.create("configmaps", config_map(name, {"a": "1"}, **metadata))

    def asked(self, name: str) -> list[Review]:
        return self.server.asked.get(f"/{name}", [])

    async def leave(self) -> None:
        for path in self._made:
            await self.wire.send("DELETE", path)


@pytest.fixture
async def hooks(cluster: Cluster) -> AsyncIterator[Hooks]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving_webhooks())
        wire = await stack.enter_async_context(on_the_wire(cluster))
        made = Hooks(cluster, server, wire)
        stack.push_async_callback(made.leave)
        yield made


async def test_a_configuration_is_completed(hooks: Hooks) -> None:
    hook = {**hooks.hook("a"), "clientConfig": {"service": {"namespace": "n", "name": "s"}}, "objectSelector": None}
    del hook["timeoutSeconds"]
    made = (await hooks.register(MUTATING, hook, wait=False)).body
    assert made["metadata"]["generation"] == 1
    first = made["webhooks"][0]
    assert first["failurePolicy"] == "Fail"
    assert first["matchPolicy"] == "Equivalent"
    assert first["reinvocationPolicy"] == "Never"
    assert first["timeoutSeconds"] == 10
    assert first["objectSelector"] == {}
    assert first["rules"][0]["scope"] == "*"
    assert first["clientConfig"]["service"]["port"] == 443


CONDITION = "webhooks[0].matchConditions[0].expression"
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"name": "short"}, "webhooks[0].name"),
    ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
    ({"sideEffects": None}, "webhooks[0].sideEffects"),
    ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
    ({"failurePolicy": "Perhaps"}, "webhooks[0].failurePolicy"),
    ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ({"clientConfig": {"url": "http://127.0.0.1/"}}, "webhooks[0].clientConfig.url"),
    ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
    ({"rules": [rule("pods", "CREATE", "*")]}, "webhooks[0].rules[0].operations"),
    ({"rules": [rule("pods", "PATCH")]}, "webhooks[0].rules[0].operations[0]"),
    ({"rules": [{**rule("pods", "CREATE"), "resources": []}]}, "webhooks[0].rules[0].resources"),
    ({"matchConditions": [{"name": "a", "expression": "object."}]}, CONDITION),
    ({"matchConditions": [{"name": "a", "expression": "nobody == 1"}]}, CONDITION),
]


async def test_a_configuration_that_is_wrong_is_refused_with_the_field(hooks: Hooks) -> None:
    for change, wrong in MISTAKES:
        answer = await hooks.register(VALIDATING, {**hooks.hook("a"), **change})
        assert answer.status == 422, change
        assert wrong in [each for _, each in answer.causes], change


async def test_a_webhook_is_told_everything_about_a_creation_a_change_and_a_deletion(hooks: Hooks) -> None:
    await hooks.register(VALIDATING, hooks.hook("v", rules=[rule("configmaps", "*")]))
    await hooks.wire.create("configmaps", config_map("c", {"a": "1"}), fieldManager="me", dryRun="All")
    await hooks.create("c")
    await hooks.wire.patch("configmaps", "c", {"data": {"a": "2"}}, PatchType.MERGE)
    await hooks.wire.delete("configmaps", "c", {"propagationPolicy": "Background"})
    mine = [each for each in hooks.asked("v") if each.get("name") == "c"]
    dry, creation, change, deletion = mine
    core = {"group": "", "version": "v1"}
    assert dry["dryRun"] is True
    assert dry["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "me",
    }
    assert creation["dryRun"] is False
    assert creation["kind"] == creation["requestKind"] == {**core, "kind": "ConfigMap"}
    assert creation["resource"] == creation["requestResource"] == {**core, "resource": "configmaps"}
    assert creation["namespace"] == hooks.cluster.namespace
    assert creation["operation"] == "CREATE"
    assert creation["object"]["apiVersion"] == "v1"
    assert creation["object"]["data"] == {"a": "1"}
    assert creation["oldObject"] is None
    assert creation["userInfo"]["username"]
    assert "system:authenticated" in creation["userInfo"]["groups"]
    assert change["operation"] == "UPDATE"
    assert (change["oldObject"]["data"], change["object"]["data"]) == ({"a": "1"}, {"a": "2"})
    assert change["options"]["kind"] == "UpdateOptions"
    assert deletion["operation"] == "DELETE"
    assert deletion["object"] is None
    assert deletion["oldObject"]["data"] == {"a": "2"}
    assert deletion["options"]["propagationPolicy"] == "Background"
    assert len({each["uid"] for each in mine}) == 4
    assert hooks.server.uris[-1] == "/v?timeout=5s"


async def test_those_that_mutate_see_the_object_before_it_has_a_name_and_those_that_validate_when_it_has(
    hooks: Hooks,
) -> None:
    await hooks.register(MUTATING, hooks.hook("m", patching(ADD_B)))
    await hooks.register(VALIDATING, hooks.hook("v"))
    answer = await hooks.wire.create("configmaps", config_map("", {"a": "1"}, generateName="gen-"))
    assert answer.status == 201
    assert answer.body["data"] == {"a": "1", "b": "2"}
    before, after = hooks.asked("m")[-1], hooks.asked("v")[-1]
    assert "name" not in before
    assert "uid" not in before["object"]["metadata"]
    assert after["object"]["metadata"]["name"].startswith("gen-")
    assert after["object"]["metadata"]["uid"]
    assert after["object"]["data"] == {"a": "1", "b": "2"}


async def test_what_a_webhook_adds_is_completed_and_checked_like_everything_else(hooks: Hooks) -> None:
    port = {"op": "add", "path": "/spec/containers/0/ports", "value": [{"containerPort": 80}]}
    bad = {"op": "replace", "path": "/spec/containers/0/name", "value": "Not A Name"}

    def judge(request: Review) -> Review:
        answer = patching(bad if request["name"] == "bad" else port)(request)
        assert not isinstance(answer, web.Response)
        return answer

    await hooks.register(MUTATING, hooks.hook("m", judge, rules=[rule("pods", "CREATE")]))
    good = await hooks.wire.create("pods", pod("good"))
    assert good.body["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    refused = await hooks.wire.create("pods", pod("bad"))
    assert refused.status == 422
    assert refused.causes[0][1] == "spec.containers[0].name"


async def test_a_refusal_has_the_webhooks_name_code_and_reason_and_warnings_are_passed_on(hooks: Hooks) -> None:
    def judge(request: Review) -> Review:
        match request["name"]:
            case "coded":
                status = {"message": "not on Fridays", "code": 409, "reason": "Conflict", "details": {"name": "x"}}
                return {"allowed": False, "status": status, "warnings": ["and not on Mondays"]}
            case "plain":
                return {"allowed": False}
            case "reason":
                return {"allowed": False, "status": {"reason": "Forbidden"}}
            case "small":
                return {"allowed": False, "status": {"message": "no", "code": 200}}
        return {"allowed": True, "warnings": ["first", 'say "please"']}

    await hooks.register(VALIDATING, hooks.hook("v", judge))
    denied = 'admission webhook "v.test.example" denied the request'
    coded = await hooks.create("coded")
    assert coded.status == coded.body["code"] == 409
    assert coded.message == f"{denied}: not on Fridays"
    assert coded.reason == "Conflict"
    assert coded.body["details"] == {"name": "x"}
    assert coded.warnings == '299 - "and not on Mondays"'
    plain = await hooks.create("plain")
    assert (plain.status, plain.message) == (400, f"{denied} without explanation")
    by_reason = await hooks.create("reason")
    assert (by_reason.status, by_reason.message) == (400, f"{denied}: Forbidden")
    assert (await hooks.create("small")).status == 400
    allowed = await hooks.create("allowed")
    assert allowed.status == 201
    assert allowed.warnings == '299 - "first", 299 - "say "please""'


NO_ANSWER = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
FAILURES: dict[str, tuple[Judge, str]] = {
    "error": (lambda _: web.Response(status=500, text="boom"), 'an error on the server ("boom") has prevented'),
    "absent": (lambda _: web.json_response(NO_ANSWER), "webhook response was absent"),
    "uid": (lambda _: {"uid": "another", "allowed": True}, 'expected response.uid="'),
    "patch": (patching(ADD_B), "validating webhook may not return response.patch"),
    "redirect": (lambda _: web.Response(status=302, headers={"Location": "/"}), "failed calling webhook"),
}


async def test_a_webhook_that_fails_refuses_or_is_ignored_as_its_policy_says(hooks: Hooks) -> None:
    def chosen(name: str) -> Review:
        return {"objectSelector": {"matchLabels": {"ask": name}}}

    strict = [hooks.hook(name, judge, **chosen(name)) for name, (judge, _) in FAILURES.items()]
    lax = [
        hooks.hook(f"lax-{name}", judge, failurePolicy="Ignore", **chosen(f"lax-{name}"))
        for name, (judge, _) in FAILURES.items()
    ]
    await hooks.register(VALIDATING, *strict, *lax)
    for name, (_, said) in FAILURES.items():
        ignored = await hooks.create(f"lax-{name}", labels={"ask": f"lax-{name}"})
        assert ignored.status == 201, name
        assert hooks.asked(f"lax-{name}"), name
        answer = await hooks.create(name, labels={"ask": name})
        assert (answer.status, answer.reason) == (500, "InternalError"), name
        assert answer.message.startswith(f'Internal error occurred: failed calling webhook "{name}.test.example": ')
        assert said in answer.message


async def test_a_webhook_that_cant_be_reached_or_believed_or_waited_for_is_named(hooks: Hooks) -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    closed = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    async with serving_webhooks() as stranger:
        held = asyncio.Event()
        connections: list[asyncio.StreamWriter] = []

        async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            await held.wait()

        holding = await asyncio.start_server(hold, "127.0.0.1", 0)
        slow = holding.sockets[0].getsockname()[1]

        def at(name: str, url: str, **more: Any) -> Review:
            hook = hooks.hook(name, objectSelector={"matchLabels": {"ask": name}}, **more)
            return {**hook, "clientConfig": {**hook["clientConfig"], "url": url}}

        try:
            await hooks.register(
                VALIDATING,
                at("gone", f"https://127.0.0.1:{port}/"),
                at("stranger", f"{stranger.url}/"),
                at("slow", f"https://127.0.0.1:{slow}/", timeoutSeconds=1),
            )
            gone = await hooks.create("a", labels={"ask": "gone"})
            assert gone.status == 500
            assert f'failed to call webhook: Post "https://127.0.0.1:{port}/?timeout=5s": dial tcp' in gone.message
            assert gone.message.endswith("connect: connection refused")
            strange = await hooks.create("a", labels={"ask": "stranger"})
            assert "tls: failed to verify certificate: x509: " in strange.message
            assert not stranger.asked
            late = await hooks.create("a", labels={"ask": "slow"})
            assert late.message.endswith("context deadline exceeded")
        finally:
            held.set()
            holding.close()
            for each in connections:
                each.close()
            await holding.wait_closed()


async def test_a_webhook_is_asked_only_about_what_its_rules_selectors_and_conditions_say(hooks: Hooks) -> None:
    def condition(expression: str) -> list[Review]:
        return [{"name": "c", "expression": expression}]

    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    await hooks.register(
        VALIDATING,
        hooks.hook("updates", rules=[rule("configmaps", "UPDATE")]),
        hooks.hook("cluster", rules=[rule("configmaps", "*", scope="Cluster")]),
        hooks.hook("version", rules=[rule("configmaps", "*", version="v2")], matchPolicy="Exact"),
        hooks.hook("part", rules=[rule("configmaps/status", "*")]),
        hooks.hook("all", rules=[rule("*/*", "*", group="*", version="*")]),
        hooks.hook("elsewhere", namespaceSelector=elsewhere),
        hooks.hook("labelled", objectSelector={"matchExpressions": [{"key": "x", "operator": "Exists"}]}),
        hooks.hook("named", matchConditions=condition("object.metadata.name == 'a' && request.operation == 'CREATE'")),
        hooks.hook("otherwise", matchConditions=condition("object.metadata.name != 'a'")),
        hooks.hook("changed", matchConditions=condition("oldObject != null && object.data != oldObject.data")),
        hooks.hook("broken", matchConditions=condition("object.nothing == 1"), failurePolicy="Ignore"),
    )
    names = ("updates", "cluster", "version", "part", "all", "elsewhere", "labelled", "named", "otherwise", "changed")

    async def asked(act: Callable[[], Awaitable[Answer]]) -> set[str]:
        hooks.server.asked.clear()
        assert (await act()).status in (200, 201)
        # Controllers of the cluster make ConfigMaps, too.
        return {name for name in (*names, "broken") if any(each.get("name") == "a" for each in hooks.asked(name))}

    assert await asked(lambda: hooks.create("a")) == {"all", "named"}
    patch: Review = {"metadata": {"labels": {"x": "y"}}}
    assert await asked(lambda: hooks.wire.patch("configmaps", "a", patch, PatchType.MERGE)) == {
        "updates",
        "all",
        "labelled",
    }
    patch = {"metadata": {"labels": {"x": None}}, "data": {"a": "3"}}
    # The label is gone, but it was there before.
    assert await asked(lambda: hooks.wire.patch("configmaps", "a", patch, PatchType.MERGE)) == {
        "updates",
        "all",
        "labelled",
        "changed",
    }


async def test_a_condition_that_cant_be_evaluated_refuses_where_the_webhook_must_not_fail(hooks: Hooks) -> None:
    conditions = [{"name": "c", "expression": "object.nothing == 1"}]
    await hooks.register(VALIDATING, hooks.hook("strict", matchConditions=conditions))
    answer = await hooks.create("a")
    assert answer.status == 403
    assert answer.message.startswith('configmaps "a" is forbidden: ')
    assert "expression 'object.nothing == 1' resulted in error: no such key: nothing" in answer.message
    assert not hooks.asked("strict")


async def test_webhooks_that_want_it_are_asked_again_when_others_changed_the_object(hooks: Hooks) -> None:
    def counting(request: Review) -> Review:
        times = str(len(hooks.asked("again")))
        answer = patching({"op": "add", "path": "/data/seen", "value": times})(request)
        assert not isinstance(answer, web.Response)
        return answer

    await hooks.register(
        MUTATING,
        hooks.hook("again", counting, reinvocationPolicy="IfNeeded"),
        hooks.hook("once"),
        hooks.hook("changer", patching(ADD_B)),
        hooks.hook("last", reinvocationPolicy="IfNeeded"),
    )
    hooks.server.asked.clear()
    assert (await hooks.create("c")).body["data"] == {"a": "1", "b": "2", "seen": "2"}
    mine = {name: [e for e in hooks.asked(name) if e["name"] == "c"] for name in ("again", "once", "changer", "last")}
    # The last one saw the object as it is but for what the first does the second time.
    assert {name: len(asked) for name, asked in mine.items()} == {"again": 2, "once": 1, "changer": 1, "last": 2}
    assert mine["again"][1]["object"]["data"] == {"a": "1", "b": "2", "seen": "1"}


async def test_subresources_are_asked_about_in_their_own_form(hooks: Hooks) -> None:
    await hooks.register(
        VALIDATING,
        hooks.hook(
            "parts",
            rules=[
                rule("pods/binding", "CREATE"),
                rule("pods/eviction", "CREATE"),
                rule("pods/status", "UPDATE"),
                rule("deployments/scale", "UPDATE", group="apps"),
            ],
        ),
        hooks.hook("whole", rules=[rule("pods", "UPDATE", "DELETE")]),
    )
    wire = hooks.wire
    await wire.create("pods", pod("p"))
    await wire.create("apps/v1/deployments", deployment("d", replicas=0))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await wire.send("POST", wire.path("pods", "p/binding"), binding, dryRun="All")).status == 201
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await wire.send("POST", wire.path("pods", "p/eviction"), eviction, dryRun="All")).status == 201
    await wire.patch("apps/v1/deployments", "d/scale", {"spec": {"replicas": 1}}, PatchType.MERGE, dryRun="All")
    await wire.patch("pods", "p/status", {"status": {"message": "m"}}, PatchType.MERGE)
    assert [(each["kind"], each["subResource"], each["resource"]["resource"]) for each in hooks.asked("parts")] == [
        ({"group": "", "version": "v1", "kind": "Binding"}, "binding", "pods"),
        ({"group": "policy", "version": "v1", "kind": "Eviction"}, "eviction", "pods"),
        ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, "scale", "deployments"),
        ({"group": "", "version": "v1", "kind": "Pod"}, "status", "pods"),
    ]
    bound, evicted, scaled, reported = hooks.asked("parts")
    assert bound["object"]["target"]["name"] == "n"
    assert bound["name"] == evicted["name"] == "p"
    assert evicted["dryRun"] is True
    assert (scaled["oldObject"]["spec"], scaled["object"]["spec"]) == ({}, {"replicas": 1})
    assert reported["object"]["status"]["message"] == "m"
    assert not hooks.asked("whole")


async def test_a_webhook_for_another_version_of_a_kind_is_asked_in_that_version(hooks: Hooks) -> None:
    group = f"{hooks.cluster.namespace}.example.com"
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": anything} for name in ("v1", "v2")]
    definition = {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "versions": versions,
            "names": {"plural": "things", "kind": "Thing"},
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await hooks.wire.send("POST", path, definition)).status == 201
    try:
        about = [rule("things", "*", group=group, version="v1")]
        await hooks.register(
            MUTATING,
            hooks.hook("equal", patching({"op": "add", "path": "/b", "value": 2}), rules=about),
            hooks.hook("exact", rules=about, matchPolicy="Exact"),
        )
        thing = {"apiVersion": f"{group}/v2", "kind": "Thing", "metadata": {"name": "t"}, "a": 1}

        async def created() -> Answer | None:
            answer = await hooks.wire.create(f"{group}/v2/things", thing)
            return answer if answer.status == 201 else None

        answer = await hooks.cluster.eventually(created)
        assert (answer.body["apiVersion"], answer.body["a"], answer.body["b"]) == (f"{group}/v2", 1, 2)
        request = hooks.asked("equal")[-1]
        assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
        assert request["object"]["apiVersion"] == f"{group}/v1"
        assert not hooks.asked("exact")
    finally:
        await hooks.wire.send("DELETE", f"{path}/things.{group}")


async def test_a_configuration_is_nobodys_business_but_its_writers(hooks: Hooks) -> None:
    """Else nobody could take back a webhook that refuses everything."""
    await hooks.register(
        VALIDATING,
        hooks.hook(
            "all",
            deny("never"),
            rules=[rule("*", "*", group="admissionregistration.k8s.io")],
            namespaceSelector={},
        ),
    )
    await hooks.register(MUTATING, hooks.hook("another"))
    assert not hooks.asked("all")
