"""The world of Grove's scenarios (`tests.grove.world`) on a cluster that is reached over the network, in real time.

A `Stage` has the services, which are started once; each scenario has a namespace and nodes of its own. Nodes belong to
the tests' own kubelet, which honours init containers, as kwok doesn't.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Node, Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject
from bosket.api.resource_k8s import ResourceClaim
from bosket.embedded.grove_admission import DEFAULT_CONFIGURATION, grove_options
from bosket.embedded.services import GROVE_ADMISSION
from bosket.grove.admission import Options as AdmissionOptions
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change, Informers
from bosket.runtime.clock import SystemClock
from bosket.runtime.service import Environment
from tests.e2e.cluster import Cluster, enter_cluster, running_beside
from tests.e2e.grove_webhooks import serve_admission, withdraw_admission
from tests.grove.kubelet import TestKubelet
from tests.grove.world import SERVICES, Json, World, nodes_named, queues

T = TypeVar("T")

_PATIENCE_SECONDS: Final = 120.0
_START_SECONDS: Final = 0.1
#: Longer than anybody waits who gathers changes before it acts on them (`bosket.grove.status.gathering`: a second);
#: what is due later than that a test says (`settle(after)`).
_QUIET_SECONDS: Final = 1.2
_NOT_READY: Final = "node.kubernetes.io/not-ready"
#: What services write when they do something about sets and their pods.
_KINDS: Final[tuple[type[KubeObject], ...]] = (
    *(PodCliqueSet, PodClique, PodCliqueScalingGroup, PodGang),
    *(PodGroup, BindRequest, ResourceClaim, Pod),
)


class RealWorld(World):
    """A namespace of a cluster on which time passes as it does."""

    time_is_free = False
    termination_delay_seconds = 2

    def __init__(self, cluster: Cluster, staff: Cluster, nodes: Sequence[str]) -> None:
        """`staff` runs the services."""
        super().__init__(cluster.client, SystemClock(), namespace=cluster.namespace, nodes=nodes)
        self._cluster = cluster
        self._staff = staff
        self._changed_at = 0.0
        self._informers = Informers(cluster.client)
        for kind in _KINDS:
            self._informers.of(kind, namespace=cluster.namespace).subscribe(self._note)

    def _note(self, change: Change[Any]) -> None:
        del change
        self._changed_at = self.clock.monotonic()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look out for changes, for the length of the block."""
        task = asyncio.create_task(self._informers.run())
        try:
            await self._informers.wait_synced()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def create(self, made: KubeObject) -> None:
        if made.metadata.namespace:
            await super().create(made)
        else:
            await self._cluster.add(made)

    async def until(self, what: str, condition: Callable[[], Awaitable[T]]) -> T:
        del what  # a failure says what the condition is called, and describes the namespace

        @wraps(condition)
        async def look() -> T:
            self._staff.check_services()
            return await condition()

        return await self._cluster.eventually(look, _PATIENCE_SECONDS)

    async def settle(self, after: float = 0) -> None:
        """Until nobody has written anything in the namespace for a while."""
        await self.clock.sleep(after)
        begun = self.clock.monotonic()
        while (left := max(begun, self._changed_at) + _QUIET_SECONDS - self.clock.monotonic()) > 0:
            await self.clock.sleep(left)


class Stage:
    """What worlds have in common that follow each other on one control plane: queues, services, the kubelet."""

    def __init__(self, staff: Cluster) -> None:
        self._staff = staff
        self._options: dict[str, object | None] = {}

    @asynccontextmanager
    async def world(
        self,
        nodes: int,
        *,
        cordoned: int = 0,
        node_labels: Sequence[Mapping[str, str]] = (),
        services: Sequence[str] = SERVICES,
        options: Mapping[str, object] | None = None,
        definitions: Sequence[Json] = (),
    ) -> AsyncIterator[RealWorld]:
        """As `Worlds` says; more services than these may run."""
        async with AsyncExitStack() as stack:
            entering = enter_cluster(self._staff.kubeconfig, None, self._staff.have_roles)
            cluster = await stack.enter_async_context(entering)
            for each in definitions:
                await stack.enter_async_context(_defined(cluster, each))
            for name in services:
                await self._serve(name, (options or {}).get(name))
            names = [f"{cluster.namespace}-{index:02}" for index in range(nodes)]
            await cluster.add(*nodes_named(names, cordoned, node_labels))
            await cluster.eventually(lambda: _none_is_tainted(cluster, names))
            world = RealWorld(cluster, self._staff, names)
            await stack.enter_async_context(world.watched())
            yield world
            # Before its pods go: the operator would replace them.
            await cluster.client.delete_collection(PodCliqueSet, cluster.namespace)

    async def _serve(self, name: str, options: object | None) -> None:
        """The service runs, with these options or the usual ones."""
        is_running = name in self._options
        if is_running and self._options[name] == options:
            return
        self._options[name] = options
        if name == GROVE_ADMISSION:
            if is_running:
                await withdraw_admission(self._staff)
            await serve_admission(self._staff, _configuration(options))
            return
        if is_running:
            await self._staff.stop_service(name)
        await self._staff.start_services(name, options=grove_options(name) if options is None else options)

    async def leave(self) -> None:
        await withdraw_admission(self._staff)


def _configuration(options: object | None) -> OperatorConfiguration:
    return options.configuration if isinstance(options, AdmissionOptions) else DEFAULT_CONFIGURATION


@asynccontextmanager
async def enter_stage(kubeconfig: Path, have_roles: Iterable[str]) -> AsyncIterator[Stage]:
    """A stage on the cluster that the kubeconfig names, for the length of the block; see `enter_cluster`."""
    async with (
        enter_cluster(kubeconfig, None, have_roles) as staff,
        running_beside(kubeconfig, _kubelet),
    ):
        await staff.add(*queues())
        stage = Stage(staff)
        try:
            yield stage
        finally:
            await stage.leave()


def _kubelet(environment: Environment) -> TestKubelet:
    return TestKubelet(environment, start_seconds=_START_SECONDS)


async def _none_is_tainted(cluster: Cluster, names: Sequence[str]) -> bool:
    nodes = [await cluster.client.get(Node, name) for name in names]
    return not any(taint.key == _NOT_READY for node in nodes for taint in node.spec.taints)


@asynccontextmanager
async def _defined(cluster: Cluster, definition: Json) -> AsyncIterator[None]:
    """A kind that the server has for the length of the block."""
    name = definition["metadata"]["name"]

    async def is_established() -> bool:
        conditions = (await cluster.client.get(CustomResourceDefinition, name)).status.conditions
        return any(each.type == "Established" and each.status == "True" for each in conditions or ())

    async def is_gone() -> bool:
        with suppress(NotFound):
            await cluster.client.get(CustomResourceDefinition, name)
            return False
        return True

    await cluster.client.create(definition)
    try:
        await cluster.eventually(is_established)
        yield
    finally:
        await cluster.client.delete(CustomResourceDefinition, name)
        await cluster.eventually(is_gone)
