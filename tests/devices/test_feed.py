"""An API server without dynamic resource allocation is no obstacle: there are no devices then."""

from __future__ import annotations

from typing import Any, Never

import pytest

from bosket.api.object import KubeObject
from bosket.api.resource import AnyResource
from bosket.api.resource_k8s import DeviceTaintRule, ResourceClaim
from bosket.api.table import resource_of
from bosket.apiserver import ApiServer
from bosket.kube.client import Client
from bosket.kube.errors import TransportError
from bosket.kube.informer import Informers
from bosket.runtime.clock import LoopClock
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.state.cluster_state import ClusterState

pytestmark = pytest.mark.looptime


class Lacking(Client):
    """Its server says that it lacks some kinds."""

    lacks: tuple[type[KubeObject], ...] = ()

    async def discover(self) -> list[AnyResource]:
        hidden = {(each.group, each.plural) for each in map(resource_of, self.lacks)}
        return [each for each in await super().discover() if (each.group, each.plural) not in hidden]


class Silent(Client):
    """Its server doesn't say what it has."""

    async def discover(self) -> Never:
        raise TransportError("no answer", maybe_carried_out=False)


async def followed(kind: type[Any], *lacks: type[Any]) -> list[str]:
    """The kinds of devices that a feed follows."""
    clock = LoopClock()
    client = kind(ApiServer(clock=clock).transport(), clock=clock)
    client.lacks = lacks
    informers = Informers(client)
    asked: list[type[KubeObject]] = []
    given = informers.of

    def noted(kind: type[KubeObject], *rest: Any, **more: Any) -> Any:
        asked.append(kind)
        return given(kind, *rest, **more)

    informers.of = noted  # type: ignore[method-assign, assignment]
    feed = Feed(informers, ClusterState())
    asked.clear()
    await feed.follow_devices(client)
    await feed.follow_devices(client)
    return [each.__name__ for each in asked]


ALL = ["ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaim"]


async def test_what_the_server_has_is_followed_once() -> None:
    assert await followed(Lacking) == ALL


async def test_a_server_without_devices_is_left_in_peace() -> None:
    assert await followed(Lacking, ResourceClaim, DeviceTaintRule) == []


async def test_taint_rules_are_younger_than_claims() -> None:
    assert await followed(Lacking, DeviceTaintRule) == ["ResourceSlice", "DeviceClass", "ResourceClaim"]


async def test_of_a_server_that_does_not_say_everything_is_expected() -> None:
    assert await followed(Silent) == ALL
