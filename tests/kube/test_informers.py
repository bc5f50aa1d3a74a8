"""Informers are shared, start when they are needed, and stop together."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest

from bosket.api.core import Node, Pod
from bosket.api.lean import lean, without
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.table import resource_of
from bosket.kube.client import Client
from bosket.kube.informer import InformerBranch, Informers, LeanKind, without_managed_fields
from bosket.kube.transport import Request, Response
from tests.kube.scripted import Watch, answer, pod


class Everything:
    """Lists one object of whatever is asked for; watches are silent."""

    def __init__(self) -> None:
        self.lists: list[str] = []
        self.watches: list[Watch] = []

    async def request(self, request: Request) -> Response:
        self.lists.append(request.path)
        item = pod("a", 5, managedFields=[{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}])
        return answer({"metadata": {"resourceVersion": "10"}, "items": [{"metadata": item["metadata"]}]})

    async def stream(self, request: Request) -> Watch:
        self.watches.append(Watch(end="silence"))
        return self.watches[-1]

    async def aclose(self) -> None:
        return None


async def test_the_same_kind_and_selection_is_one_informer() -> None:
    informers = Informers(Client(Everything()))
    assert informers.of(Pod) is informers.of(Pod)
    assert informers.of(Pod) is not informers.of(Pod, namespace="ns")
    assert informers.of(Pod, labels="a=b") is informers.of(Pod, labels="a=b")


def lean_pods() -> LeanKind[Pod]:
    metadata = without(ObjectMeta, ("uid", "managedFields"))
    struct = lean(Pod, ("spec", "status"), metadata=metadata)
    return LeanKind(dataclasses.replace(resource_of(Pod), struct=struct))


async def test_who_needs_less_shares_whole_objects_only_where_somebody_needs_these() -> None:
    informers, lean_kind = Informers(Client(Everything())), lean_pods()
    lean_ones = informers.of(Pod, lean=lean_kind)
    assert informers.of(Pod, lean=lean_kind) is lean_ones
    assert informers.of(Pod) is not lean_ones
    others = Informers(Client(Everything()))
    whole = others.of(Pod)
    assert others.of(Pod, lean=lean_kind) is whole
    assert InformerBranch(Client(Everything()), others).of(Pod, lean=lean_kind).store is whole.store


async def test_lean_objects_are_without_what_nobody_needs() -> None:
    informers = Informers(Client(Everything()))
    pods = informers.of(Pod, lean=lean_pods())
    task = asyncio.create_task(informers.run())
    await pods.wait_synced()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (found,) = pods.store
    assert (found.metadata.name, found.metadata.uid, found.metadata.managedFields) == ("a", "", ())


async def test_those_asked_for_run_also_when_asked_for_later() -> None:
    server = Everything()
    informers = Informers(Client(server))
    pods = informers.of(Pod)
    assert [pods.synced] == [False]
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(120):
        await informers.wait_synced()
        assert pods.synced
        nodes = informers.of(Node)
        await nodes.wait_synced()
    assert server.lists == ["/api/v1/pods", "/api/v1/nodes"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(watch.closed for watch in server.watches)


async def test_an_index_can_be_added_to_a_shared_informer() -> None:
    informers = Informers(Client(Everything()))
    informers.add_index(Pod, "name", lambda obj: [obj.metadata.name])
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(120):
        await informers.wait_synced()
    assert len(informers.of(Pod).store.by_index("name", "a")) == 1
    task.cancel()


async def test_a_branch_shares_what_is_known_and_its_subscriptions_end_with_it() -> None:
    server = Everything()
    trunk = Informers(Client(server))
    branch = InformerBranch(Client(server), trunk)
    seen: list[str] = []
    branch.of(Pod).subscribe(lambda change: seen.append("branch") if change.new is not None else None)
    trunk.of(Pod).subscribe(lambda change: seen.append("trunk") if change.new is not None else None)
    assert branch.of(Pod) is branch.of(Pod)
    task = asyncio.create_task(trunk.run())
    async with asyncio.timeout(120):
        await branch.wait_synced()
    assert branch.synced
    assert branch.of(Pod).store is trunk.of(Pod).store
    assert sorted(set(seen)) == ["branch", "trunk"]
    seen.clear()
    branch.detach()
    trunk.of(Pod).store.replace([], "99")
    trunk.of(Pod).store.observe(ObjectKey("ns", "new"), msgspec.convert(pod("new", 100), Pod), "100")
    assert seen == ["trunk"]
    assert server.lists == ["/api/v1/pods"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_handler_is_called_before_the_informer_counts_as_synced() -> None:
    informers = Informers(Client(Everything()))
    pods = informers.of(Pod)
    states: list[bool] = []
    pods.subscribe(lambda change: states.append(pods.synced))
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(120):
        await pods.wait_synced()
    assert states == [False]
    task.cancel()


async def test_shared_informers_drop_the_records_of_server_side_apply() -> None:
    informers = Informers(Client(Everything()))
    pods = informers.of(Pod)
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(120):
        await pods.wait_synced()
    kept = pods.store.get(ObjectKey("ns", "a"))
    assert kept is not None
    assert kept.metadata.managedFields == ()
    task.cancel()


def test_dropping_them_from_a_dict_leaves_the_original_alone() -> None:
    original: dict[str, Any] = {"metadata": {"name": "a", "managedFields": [1]}}
    assert without_managed_fields(original) == {"metadata": {"name": "a"}}
    assert "managedFields" in original["metadata"]
    bare: dict[str, Any] = {"metadata": {"name": "a"}}
    assert without_managed_fields(bare) is bare
