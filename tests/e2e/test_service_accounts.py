"""Services act as their own accounts: with what their roles allow they work, without a part of it they don't."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from functools import partial

import pytest
from msgspec.structs import replace

from bosket.api.coordination import Lease
from bosket.api.core import Pod
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.rbac import ClusterRole, PolicyRule
from bosket.install.account import account_of
from bosket.kube.errors import Forbidden
from bosket.runtime.clock import SystemClock
from bosket.runtime.leader import LeaderElector
from tests.e2e.cluster import Cluster
from tests.e2e.identity import connect_as, give_rights
from tests.e2e.manifest import pod

SERVICES = ("podgrouper", "scheduler", "binder")
#: A right of each, without which no pod runs.
NEEDED = (
    ("podgrouper", "podgroups", "create"),
    ("scheduler", "bindrequests", "create"),
    ("scheduler", "nodes", "watch"),
    ("binder", "pods/binding", "create"),
)


LEASES = (
    ("podgrouper", "podgrouper"),
    ("podgroup-controller", "podgroup-controller"),
    ("queue-controller", "queue-controller"),
    ("binder", "binder"),
    ("node-scale-adjuster", "node-scale-adjuster"),
    ("operator", "41fce092.run.ai"),
    ("scheduler", "kai-scheduler-of-any-shard"),
)


async def test_every_service_may_hold_its_own_lease_and_give_it_back(cluster: Cluster) -> None:
    for service, lease in LEASES:
        await give_rights(cluster.client, service)
        refused: list[str] = []
        client = connect_as(cluster.kubeconfig, service, refused)
        elector = LeaderElector(client, clock=SystemClock(), namespace=SYSTEM_NAMESPACE, name=lease, identity="me")
        leads = asyncio.Event()
        try:
            running = asyncio.create_task(elector.run(partial(_lead, leads)))
            await asyncio.wait_for(leads.wait(), 120)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        finally:
            await client.aclose()
        found = await cluster.client.get(Lease, lease, SYSTEM_NAMESPACE)
        assert (found.spec.holderIdentity, refused) == ("", []), service


async def _lead(leads: asyncio.Event) -> None:
    leads.set()
    await asyncio.Event().wait()


async def test_nobody_may_take_the_lease_of_another(cluster: Cluster) -> None:
    await give_rights(cluster.client, "binder")
    client = connect_as(cluster.kubeconfig, "binder", [])
    try:
        with pytest.raises(Forbidden, match='cannot get resource "leases"'):
            await client.get(Lease, "podgrouper", SYSTEM_NAMESPACE)
    finally:
        await client.aclose()


def without(role: ClusterRole, resource: str, verb: str) -> ClusterRole:
    """The role, which no longer allows a verb on a resource."""

    def lessened(rule: PolicyRule) -> tuple[PolicyRule, ...]:
        if resource not in rule.resources or verb not in rule.verbs:
            return (rule,)
        others = tuple(each for each in rule.resources if each != resource)
        rest = replace(rule, resources=(resource,), verbs=tuple(each for each in rule.verbs if each != verb))
        return (*((replace(rule, resources=others),) if others else ()), *((rest,) if rest.verbs else ()))

    return replace(role, rules=tuple(each for rule in role.rules or () for each in lessened(rule)))


@pytest.mark.parametrize(("service", "resource", "verb"), NEEDED)
async def test_a_role_without_a_verb_makes_tests_fail(cluster: Cluster, service: str, resource: str, verb: str) -> None:
    """The one way in which all end-to-end tests wait notices what services are refused, and says it."""
    account = account_of(service)
    assert account is not None
    await give_rights(cluster.client, service)
    full = await cluster.client.get(ClusterRole, account.role_name)
    reduced = await cluster.client.modify(full, without(full, resource, verb))
    try:
        await cluster.add_nodes(1)
        await cluster.start_services(*SERVICES)
        await cluster.client.create(pod("a", gpus=1), cluster.namespace)

        async def runs() -> bool:
            return (await cluster.client.get(Pod, "a", cluster.namespace)).status.phase == "Running"

        told = f'cannot {verb} resource "{resource}"' if verb != "watch" else f"watch /api/v1/{resource}"
        with pytest.raises(AssertionError, match=re.escape(told)):
            await cluster.eventually(runs)
    finally:
        for name in SERVICES:
            await cluster.stop_service(name)
        cluster.refused.clear()
        await cluster.client.modify(reduced, replace(reduced, rules=full.rules))
