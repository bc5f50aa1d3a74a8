"""Every namespace has a service account called default, whatever happens to it."""

from __future__ import annotations

import asyncio

import pytest

from bosket.api.core import Namespace, ServiceAccount
from bosket.api.object import ObjectMeta
from bosket.kube.errors import NotFound
from tests.embedded.workloads import workloads

pytestmark = pytest.mark.looptime


async def test_new_and_old_namespaces_have_one_and_a_deleted_one_comes_back() -> None:
    async with workloads() as world:
        await world.client.create(Namespace(metadata=ObjectMeta(name="team")))
        await asyncio.sleep(1)
        for namespace in ("default", "kube-system", "team"):
            await world.client.get(ServiceAccount, "default", namespace)
        first = await world.client.get(ServiceAccount, "default", "team")
        await world.client.delete(ServiceAccount, "default", "team")
        await asyncio.sleep(1)
        assert (await world.client.get(ServiceAccount, "default", "team")).metadata.uid != first.metadata.uid


async def test_a_namespace_that_goes_away_is_not_kept_by_it() -> None:
    async with workloads() as world:
        await world.client.create(Namespace(metadata=ObjectMeta(name="team")))
        await asyncio.sleep(1)
        await world.client.delete(Namespace, "team")
        await asyncio.sleep(5)
        with pytest.raises(NotFound):
            await world.client.get(Namespace, "team")
