"""The init container: it ends when enough pods of all cliques before it are ready at the same moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bosket.api.core import Container, Pod, PodSpec
from bosket.api.object import ObjectMeta
from bosket.cli.main import main
from bosket.grove.initc import InvalidParent, NotInGang, OwnGang, Parent, own_gang, wait_for_parents
from bosket.kube.client import Client
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.rig import NAMESPACE, Rig, make_rig

GANG = OwnGang(NAMESPACE, "web-0")


def pod(name: str, clique: str, gang: str = "web-0") -> Pod:
    labels = {"grove.io/podgang": gang, "grove.io/podclique": clique}
    container = Container(name="c", image="i")
    return Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels), spec=PodSpec(containers=(container,))
    )


async def set_ready(rig: Rig, name: str, *, ready: bool = True) -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    patch = {"status": {"conditions": [condition]}}
    await rig.client.patch(Pod, name, patch, namespace=NAMESPACE, subresource="status")


async def settle(waiting: asyncio.Task[None]) -> bool:
    """Whether it has ended once everything that is on its way has arrived."""
    await asyncio.sleep(5)
    return waiting.done()


@pytest.mark.looptime
async def test_it_waits_for_all_of_them_at_once() -> None:
    rig = await make_rig()
    await rig.apply(pod("a1", "web-0-a"), pod("a2", "web-0-a"), pod("b1", "web-0-b"))
    waiting = asyncio.create_task(
        wait_for_parents(rig.client, GANG, [Parent("web-0-a", 2), Parent("web-0-b", 1)]), name="waiting"
    )
    await set_ready(rig, "a1")
    await set_ready(rig, "b1")
    assert not await settle(waiting)
    await set_ready(rig, "b1", ready=False)
    await set_ready(rig, "a2")
    assert not await settle(waiting)
    await set_ready(rig, "b1")
    assert await settle(waiting)
    await waiting


@pytest.mark.looptime
async def test_pods_count_for_their_own_clique_and_gang_alone() -> None:
    """Also where one name begins like another."""
    rig = await make_rig()
    await rig.apply(pod("web-0-a-long-x", "web-0-a-long"), pod("other", "web-0-a", gang="web-1"))
    waiting = asyncio.create_task(wait_for_parents(rig.client, GANG, [Parent("web-0-a", 1)]))
    await set_ready(rig, "web-0-a-long-x")
    await set_ready(rig, "other")
    assert not await settle(waiting)
    await rig.apply(pod("web-0-a-x", "web-0-a"))
    await set_ready(rig, "web-0-a-x")
    assert await settle(waiting)


@pytest.mark.looptime
async def test_a_pod_that_was_ready_and_is_gone_does_not_count() -> None:
    rig = await make_rig()
    await rig.apply(pod("a1", "web-0-a"), pod("a2", "web-0-a"))
    await set_ready(rig, "a1")
    waiting = asyncio.create_task(wait_for_parents(rig.client, GANG, [Parent("web-0-a", 2)]))
    assert not await settle(waiting)
    await rig.client.delete(Pod, "a1", NAMESPACE, grace_seconds=0)
    await set_ready(rig, "a2")
    assert not await settle(waiting)
    waiting.cancel()


@pytest.mark.looptime
async def test_a_server_that_fails_for_a_while_is_asked_again() -> None:
    rig = await make_rig()
    await rig.apply(pod("a1", "web-0-a"))
    await set_ready(rig, "a1")
    transport = FaultyTransport(rig.server.transport())
    transport.add(refuse(matching("GET", "/pods"), status=503, times=3))
    await wait_for_parents(Client(transport, clock=rig.clock), GANG, [Parent("web-0-a", 1)])


async def test_nothing_is_asked_where_nobody_is_waited_for() -> None:
    transport = FaultyTransport((await make_rig()).server.transport())
    await wait_for_parents(Client(transport), GANG, [])
    assert transport.requests == []


def test_parents_are_names_and_counts() -> None:
    assert Parent.parse(" web-0-a:3 ") == Parent("web-0-a", 3)


@pytest.mark.parametrize("text", ["web", "web:", ":3", "web:0", "web:-1", "web:x", "web:1:2", "web:²"])
def test_other_arguments_are_refused(text: str) -> None:
    with pytest.raises(InvalidParent, match="expected the name of a PodClique"):
        Parent.parse(text)


def test_the_pods_files_say_which_gang_it_is(tmp_path: Path) -> None:
    with pytest.raises(NotInGang, match="namespace: can't be read"):
        own_gang(tmp_path)
    (tmp_path / "namespace").write_text("ml")
    (tmp_path / "podgangname").write_text("")
    with pytest.raises(NotInGang, match="podgangname: is empty"):
        own_gang(tmp_path)
    (tmp_path / "podgangname").write_text("web-0\n")
    assert own_gang(tmp_path) == OwnGang("ml", "web-0")


def test_the_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "grove-initc", "--podcliques=web"]) == 2
    assert '--podcliques "web": expected the name of a PodClique' in capsys.readouterr().err
    assert main(["run", "grove-initc", "--podcliques=web:1", "--podcliques=db:2", "--pod-info", str(tmp_path)]) == 2
    assert "namespace: can't be read" in capsys.readouterr().err
