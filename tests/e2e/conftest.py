"""The fixture `cluster`: each end-to-end test runs on the embedded server and on a real control plane.

`make test` runs the embedded half (`-m "not real"`), `make e2e` the real one. The real control plane is started once
for a session; an embedded cluster is quick enough to be new for every test.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from bosket.embedded.bootstrap import bootstrap
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.embedded.controllers.simulated_storage import SimulatedStorage
from bosket.embedded.gpu_devices import GpuDevices
from bosket.install.account import ACCOUNTS
from bosket.kube.kubeconfig import connect
from tests.controlplane import assets
from tests.controlplane.plane import ControlPlane
from tests.controlplane.prometheus import find_prometheus
from tests.e2e.cluster import Cluster, enter_cluster, find_kubectl, running_beside
from tests.e2e.identity import give_rights

EMBEDDED: Final = "embedded"
REAL: Final = "real"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane on which Bosket's services can run."""
    binaries = assets.find(print)
    if binaries is None:
        pytest.fail("the control plane is not built yet: `make e2e` does that, or `python -m tests.controlplane build`")
    with ControlPlane(binaries, tmp_path_factory.mktemp("controlplane")) as plane:
        asyncio.run(_bootstrap(plane.kubeconfig()))
        yield plane


@pytest.fixture(scope="session")
def prometheus_programs() -> Path:
    """The folder with Prometheus and its tool."""
    programs = find_prometheus()
    if programs is None:
        pytest.fail("there is no Prometheus: `make e2e` fetches it, or `python -m tests.controlplane build`")
    return programs


async def _bootstrap(kubeconfig: Path) -> None:
    client = connect(kubeconfig)
    try:
        await bootstrap(client)
        for account in ACCOUNTS:
            await give_rights(client, account.service)
    finally:
        await client.aclose()


@pytest.fixture(params=[EMBEDDED, pytest.param(REAL, marks=pytest.mark.real)])
def control_plane_if_real(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> ControlPlane | None:
    record_property("server", request.param)
    if request.param == EMBEDDED:
        return None
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return plane


@pytest.fixture
def embedded_services() -> tuple[str, ...]:
    """What the embedded cluster must run itself; a module may say otherwise."""
    return ()


@pytest.fixture
async def cluster(
    control_plane_if_real: ControlPlane | None, embedded_services: tuple[str, ...], tmp_path: Path
) -> AsyncIterator[Cluster]:
    """A cluster without nodes, on which none of Bosket's services runs yet."""
    async with AsyncExitStack() as stack:
        if control_plane_if_real is not None:
            kubeconfig = control_plane_if_real.kubeconfig()
            # kwok runs pods, and knows nothing of devices; in an embedded cluster this comes with the nodes.
            await stack.enter_async_context(running_beside(kubeconfig, GpuDevices))
            await stack.enter_async_context(running_beside(kubeconfig, SimulatedStorage))
        else:
            kubeconfig = tmp_path / "kubeconfig"
            embedded = EmbeddedCluster(nodes=0, services=embedded_services, listen=Listen(kubeconfig=kubeconfig))
            await stack.enter_async_context(embedded)
            await embedded.wait_ready()
        have_roles = {each.service for each in ACCOUNTS} if control_plane_if_real is not None else set()
        kubectl = find_kubectl(assets.find(print))
        yield await stack.enter_async_context(enter_cluster(kubeconfig, kubectl, have_roles))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests ran on each server: a green run that left one out must not look like a whole one."""
    counts: Counter[tuple[str, str]] = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            server = dict(getattr(report, "user_properties", ())).get("server")
            if server is not None:
                counts[server, outcome] += 1
    if not counts:
        return
    terminalreporter.section("end-to-end tests by server")
    for server in (EMBEDDED, REAL):
        parts = [f"{counts[server, outcome]} {outcome}" for outcome in ("passed", "failed", "error")]
        terminalreporter.line(f"{server:>9}: {', '.join(parts)}")
