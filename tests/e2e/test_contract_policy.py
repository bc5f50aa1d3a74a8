"""What every API server promises about ValidatingAdmissionPolicies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from bosket.kube.client import PatchType
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map
from tests.e2e.webhook_server import rule
from tests.e2e.wire import Answer, Wire, on_the_wire

GROUP = "/apis/admissionregistration.k8s.io/v1"
ABOUT = {"resourceRules": [rule("configmaps", "CREATE", "UPDATE")]}
DENY = {"validationActions": ["Deny"]}


@dataclass
class Policies:
    """Makes policies that are in force in the test's namespace only."""

    cluster: Cluster
    wire: Wire
    _made: list[str] = field(default_factory=list)

    async def make(self, spec: dict[str, Any], **binding: Any) -> str:
        """A policy with its binding, in force; gives the name of both."""
        name = f"{self.cluster.namespace}-{len(self._made)}"
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.cluster.namespace}}}
        marked = {"expression": "object.metadata.name != 'in-force'", "message": "in force"}
        spec = {**spec, "validations": [*spec["validations"], marked]}
        policy = await self.send("validatingadmissionpolicies", name, spec)
        assert policy.status == 201, policy.body
        bound = {"policyName": name, "matchResources": here, **binding}
        assert (await self.send("validatingadmissionpolicybindings", name, bound)).status == 201

        async def in_force() -> bool:
            answer = await self.create("in-force", dryRun="All")
            return answer.status != 201 or name in answer.warnings

        await self.cluster.eventually(in_force)
        return name

    async def send(self, plural: str, name: str, spec: dict[str, Any]) -> Answer:
        path = f"{GROUP}/{plural}"
        self._made.append(f"{path}/{name}")
        return await self.wire.send("POST", path, {"metadata": {"name": name}, "spec": spec})

    async def create(self, name: str, data: dict[str, str] | None = None, **query: str) -> Answer:
        return await self.wire.create("configmaps", config_map(name, data), **query)

    async def leave(self) -> None:
        for path in self._made:
            await self.wire.send("DELETE", path)


@pytest.fixture
async def policies(cluster: Cluster) -> AsyncIterator[Policies]:
    async with AsyncExitStack() as stack:
        made = Policies(cluster, await stack.enter_async_context(on_the_wire(cluster)))
        stack.push_async_callback(made.leave)
        yield made


async def test_what_breaks_a_policy_is_refused_with_its_message_and_reason(policies: Policies) -> None:
    validations = [
        {"expression": "!has(object.data) || !('bad' in object.data)", "message": "nothing bad"},
        {
            "expression": "variables.count < 3",
            "messageExpression": "'has ' + string(variables.count) + ' of at most ' + string(variables.most)",
            "reason": "Forbidden",
        },
        {"expression": "object.metadata.name != 'broken' || object.nothing == 1"},
        {"expression": "oldObject == null || object.data == oldObject.data"},
    ]
    variables = [
        {"name": "data", "expression": "has(object.data) ? object.data : {}"},
        {"name": "count", "expression": "size(variables.data)"},
        {"name": "most", "expression": "2"},
        {"name": "unused", "expression": "object.nothing.at.all"},
    ]
    spec = {"matchConstraints": ABOUT, "validations": validations, "variables": variables}
    name = await policies.make(spec, **DENY)
    head = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "

    bad = await policies.create("a", {"bad": "1"})
    assert (bad.status, bad.reason) == (422, "Invalid")
    assert bad.message == f'configmaps "a" is forbidden: {head}nothing bad'
    assert bad.body["details"]["causes"] == [{"message": f"{head}nothing bad"}]
    many = await policies.create("a", {"a": "1", "b": "2", "c": "3"})
    assert (many.status, many.reason) == (403, "Forbidden")
    assert many.message.endswith(": has 3 of at most 2")
    broken = await policies.create("broken")
    assert broken.status == 422
    assert broken.message.endswith(
        "expression 'object.metadata.name != 'broken' || object.nothing == 1' resulted in error: no such key: nothing"
    )
    assert (await policies.create("good", {"a": "1"})).status == 201
    changed = await policies.wire.patch("configmaps", "good", {"data": {"a": "2"}}, PatchType.MERGE)
    assert changed.message.endswith("failed expression: oldObject == null || object.data == oldObject.data")
    same = await policies.wire.patch("configmaps", "good", {"metadata": {"labels": {"a": "b"}}}, PatchType.MERGE)
    assert same.status == 200


async def test_a_policy_may_warn_and_ignore_what_cant_be_evaluated(policies: Policies) -> None:
    validations = [{"expression": "object.metadata.name != 'a'", "message": "not a"}, {"expression": "object.x == 1"}]
    spec = {"matchConstraints": ABOUT, "failurePolicy": "Ignore", "validations": validations}
    name = await policies.make(spec, validationActions=["Warn", "Audit"])
    warned = await policies.create("a")
    assert warned.status == 201
    said = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': not a"
    assert warned.warnings == f'299 - "{said}"'
    assert not (await policies.create("b")).warnings


async def test_a_policy_is_asked_only_about_what_it_and_its_binding_match(policies: Policies) -> None:
    about = {
        **ABOUT,
        "excludeResourceRules": [{**rule("configmaps", "*"), "resourceNames": ["spared"]}],
        "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
    }
    conditions = [{"name": "by-name", "expression": "!object.metadata.name.startsWith('other')"}]
    never = [{"expression": "object.metadata.name == 'in-force'", "message": "never"}]
    spec = {"matchConstraints": about, "matchConditions": conditions, "validations": never}
    await policies.make(spec, **DENY)
    assert (await policies.create("mine")).status == 422
    assert (await policies.create("spared")).status == 201
    assert (await policies.create("other")).status == 201
    free = config_map("mine", None, labels={"free": "yes"})
    assert (await policies.wire.create("configmaps", free)).status == 201
    assert (await policies.wire.create("secrets", {"metadata": {"name": "mine"}})).status == 201


async def test_a_policy_has_parameters_where_it_is_bound(policies: Policies) -> None:
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule("configmaps", "CREATE"), rule("secrets", "CREATE")]},
        "validations": [
            {
                "expression": "object.metadata.name != params.data.forbidden",
                "messageExpression": "params.data.forbidden + ' in ' + namespaceObject.metadata.name",
            },
        ],
    }
    await policies.wire.create("configmaps", config_map("first", {"forbidden": "one"}, labels={"params": "yes"}))
    await policies.wire.create("configmaps", config_map("second", {"forbidden": "two"}, labels={"params": "yes"}))
    selected = {"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Deny"}
    await policies.make(spec, paramRef=selected, **DENY)

    async def secret(name: str) -> Answer:
        return await policies.wire.create("secrets", {"metadata": {"name": name}})

    assert (await secret("one")).message.endswith(f"one in {policies.cluster.namespace}")
    assert (await secret("two")).status == 422
    assert (await secret("three")).status == 201
    for name in ("first", "second"):
        await policies.wire.delete("configmaps", name)

    async def none_left() -> bool:
        answer = await policies.wire.create("secrets", {"metadata": {"name": "four"}}, dryRun="All")
        return answer.status == 422 and answer.message.endswith(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )

    await policies.cluster.eventually(none_left)


async def test_a_policy_or_a_binding_that_is_wrong_is_refused_with_the_field(policies: Policies) -> None:
    true = {"expression": "true"}
    wrong_policies: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["spec.matchConstraints", "spec.validations", "spec.auditAnnotations"]),
        ({"matchConstraints": {}, "validations": [true]}, ["spec.matchConstraints.resourceRules"]),
        ({"matchConstraints": ABOUT, "validations": [{"expression": "object."}]}, ["spec.validations[0].expression"]),
        ({"matchConstraints": ABOUT, "validations": [{"expression": "params.x"}]}, ["spec.validations[0].expression"]),
        (
            {"matchConstraints": ABOUT, "validations": [{"expression": "variables.x"}]},
            ["spec.validations[0].expression"],
        ),
        ({"matchConstraints": ABOUT, "validations": [{**true, "reason": "Gone"}]}, ["spec.validations[0].reason"]),
    ]
    for spec, fields in wrong_policies:
        answer = await policies.send("validatingadmissionpolicies", f"{policies.cluster.namespace}-wrong", spec)
        assert (answer.status, [each for _, each in answer.causes]) == (422, fields)
    wrong_bindings: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["spec.policyName", "spec.validationActions"]),
        ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, ["spec.validationActions"]),
        ({"policyName": "p", "validationActions": ["Refuse"]}, ["spec.validationActions[0]"]),
        ({"policyName": "p", **DENY, "paramRef": {}}, ["spec.paramRef", "spec.paramRef.parameterNotFoundAction"]),
    ]
    for spec, fields in wrong_bindings:
        answer = await policies.send("validatingadmissionpolicybindings", f"{policies.cluster.namespace}-wrong", spec)
        assert (answer.status, [each for _, each in answer.causes]) == (422, fields)
