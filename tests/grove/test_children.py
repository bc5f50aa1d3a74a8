"""A set's smaller children: autoscalers that follow the set, and what others made or changed is put right."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.autoscaling import HorizontalPodAutoscaler
from bosket.api.core import Event, Secret, Service, ServiceAccount, ServiceSpec
from bosket.api.grove import AutoScalingConfig, PodCliqueSet
from bosket.api.grove.naming import PART_OF_LABEL, role_name, token_secret_name
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.ownership import controller_of
from bosket.api.rbac import Role, RoleBinding, RoleRef
from tests.grove.sets import NAMESPACE, clique, clique_set
from tests.grove.world import World, world

pytestmark = pytest.mark.looptime

OPERATOR = ("grove-operator", "grove-backends")
NAME = "web"
#: What an account, a role and a service are called for a set.
CHILDREN: tuple[tuple[type[KubeObject], str], ...] = (
    (Service, f"{NAME}-0"),
    (ServiceAccount, NAME),
    (Role, role_name(NAME)),
    (RoleBinding, role_name(NAME)),
    (Secret, token_secret_name(NAME)),
)


async def change_set(tester: World, hours: int) -> None:
    """Somebody changes the set, so that the operator looks at it."""
    patch = {"spec": {"template": {"terminationDelay": f"{hours}h0m0s"}}}
    await tester.client.patch(PodCliqueSet, NAME, patch, namespace=NAMESPACE)


async def test_an_autoscaler_comes_changes_and_goes_with_its_configuration() -> None:
    async def limits() -> list[int]:
        found = (await tester.client.list(HorizontalPodAutoscaler, NAMESPACE)).items
        return [each.spec.maxReplicas for each in found]

    async def limits_are(*wanted: int) -> bool:
        return await limits() == list(wanted)

    async with world(0, services=OPERATOR) as tester:
        template = clique("router", 2)
        scaled = replace(template.spec, autoScalingConfig=AutoScalingConfig(minReplicas=2, maxReplicas=4))
        await tester.apply(clique_set(NAME, replace(template, spec=scaled)))
        await tester.until("an autoscaler", lambda: limits_are(4))
        path = f"/apis/grove.io/v1alpha1/namespaces/{NAMESPACE}/podcliquesets/{NAME}"
        headers = {"Content-Type": "application/json-patch+json"}
        field = "/spec/template/cliques/0/spec/autoScalingConfig"
        change = [{"op": "replace", "path": f"{field}/maxReplicas", "value": 6}]
        await tester.client.raw("PATCH", path, body=change, headers=headers)
        await tester.until("another limit", lambda: limits_are(6))
        await tester.client.raw("PATCH", path, body=[{"op": "remove", "path": field}], headers=headers)
        await tester.until("no autoscaler", limits_are)


async def test_children_that_somebody_changed_are_put_right() -> None:
    async with world(0, services=OPERATOR) as tester:
        await tester.apply(clique_set(NAME, clique("router")))
        for hours, (kind, name) in enumerate(CHILDREN[:-1], start=5):

            async def is_labelled(kind: type[KubeObject] = kind, name: str = name) -> bool:
                labels = f"{PART_OF_LABEL}={NAME}"
                found = (await tester.client.list(kind, NAMESPACE, labels=labels)).items
                return name in [each.metadata.name for each in found]

            await tester.until(f"{kind.__name__} {name}", is_labelled)
            await tester.client.patch(
                kind, name, {"metadata": {"labels": {PART_OF_LABEL: "another"}}}, namespace=NAMESPACE
            )
            await change_set(tester, hours)
            await tester.until(f"the labels of {kind.__name__} {name}", is_labelled)


async def test_children_that_were_there_before_and_are_nobodys_become_the_sets() -> None:
    async with world(0, services=OPERATOR) as tester:
        for kind, name in CHILDREN:
            meta = ObjectMeta(name=name, namespace=NAMESPACE)
            needed: dict[type[KubeObject], dict[str, Any]] = {
                RoleBinding: {"roleRef": RoleRef(apiGroup="rbac.authorization.k8s.io", kind="Role", name=name)},
                Service: {"spec": ServiceSpec(clusterIP="None")},
            }
            await tester.apply(kind(metadata=meta, **needed.get(kind, {})))
        await tester.apply(clique_set(NAME, clique("router")))

        async def are_owned() -> bool:
            found = [await tester.client.get(kind, name, NAMESPACE) for kind, name in CHILDREN[:-1]]
            return all(controller_of(each) is not None for each in found)

        await tester.until("all to be the set's", are_owned)


async def test_a_secret_of_somebody_else_that_has_the_tokens_name_is_told_of_until_it_is_gone() -> None:
    name = token_secret_name(NAME)
    said = f"Secret {NAMESPACE}/{name} already exists but is not controlled by PodCliqueSet {NAMESPACE}/{NAME}"
    async with world(0, services=OPERATOR) as tester:
        await tester.apply(Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE)))
        await tester.apply(clique_set(NAME, clique("router")))

        async def errors() -> list[tuple[str, str]]:
            found = await tester.client.get(PodCliqueSet, NAME, NAMESPACE)
            return [(each.code, each.description) for each in found.status.lastErrors]

        assert await tester.until("an error", errors) == [("ERR_SECRET_CONFLICT", said)]
        events = (await tester.client.list(Event, NAMESPACE)).items
        assert any(each.reason == "SecretConflict" and said in each.message for each in events)
        await tester.client.delete(Secret, name, NAMESPACE)

        async def no_errors() -> bool:
            return not await errors()

        await tester.until("no error", no_errors)
        assert await tester.until("pods", tester.pods)
