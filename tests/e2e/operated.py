"""What end-to-end tests of the operator need: somebody who plays default scheduler and kubelet for its Deployments.

No container runs in these clusters. Pods of the operator's Deployments are bound here, and simulated nodes call them
running; what would run in them is started as processes beside the cluster, with the arguments that the operator wrote
and as the accounts that they would have.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from bosket.api.admission import MutatingWebhookConfiguration
from bosket.api.apps import Deployment
from bosket.api.core import ConfigMap, Pod, Secret
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.kai.config import CONFIG_NAME, Config, ConfigSpec
from bosket.api.kai.shard import SchedulingShard
from bosket.api.keys import NODE_POOL_LABEL, SYSTEM_NAMESPACE
from bosket.api.object import ObjectMeta
from bosket.kube.errors import Conflict, NotFound
from tests.controlplane.plane import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.identity import give_rights, kubeconfig_of

#: Flags that name a file of a ConfigMap; the Deployment says which one.
_CONFIG_FILES: Final = ("--scheduler-config=", "--config=")


@asynccontextmanager
async def operated(cluster: Cluster, spec: ConfigSpec, *shards: SchedulingShard) -> AsyncIterator[None]:
    """The cluster with an operator, its Config and shards; afterwards nothing is left of what it made."""
    await cluster.start_services("operator")
    await cluster.client.create(Config(metadata=ObjectMeta(name=CONFIG_NAME), spec=spec))
    for shard in shards:
        await cluster.client.create(shard)
    try:
        yield
    finally:
        await cluster.stop_service("operator")
        for shard in shards:
            await cluster.client.delete(SchedulingShard, shard.metadata.name)
        await cluster.client.delete(Config, CONFIG_NAME)

        async def nothing_is_left() -> bool:
            with suppress(NotFound):
                await cluster.client.get(MutatingWebhookConfiguration, "mutating-kai-admission")
                return False
            labels = "app.kubernetes.io/managed-by=kai-operator"
            return not (await cluster.client.list(Deployment, SYSTEM_NAMESPACE, labels=labels)).items

        await cluster.eventually(nothing_is_left)
        with suppress(NotFound):
            await cluster.client.delete(Secret, "kai-admission-webhook-tls-secret", SYSTEM_NAMESPACE)
        # Their node goes with the test, and nobody else would end them.
        await cluster.client.delete_collection(Pod, SYSTEM_NAMESPACE, grace_seconds=0)


async def is_ready(cluster: Cluster, owner: type[Config | SchedulingShard], name: str, node: str) -> None:
    """When the operator says so. Pods of its Deployments that have no node are bound to this one."""

    async def ready() -> bool:
        for pod in (await cluster.client.list(Pod, SYSTEM_NAMESPACE)).items:
            if not pod.spec.nodeName:
                with suppress(Conflict, NotFound):
                    await cluster.client.bind(pod, node)
        found: Config | SchedulingShard = await cluster.client.get(owner, name)
        told = {each.type: each for each in found.status.conditions}
        assert "Ready" in told, "nothing is said"
        assert told["Ready"].status == "True", told["Ready"].message
        return True

    await cluster.eventually(ready, timeout_seconds=60)


async def command_of(cluster: Cluster, deployment: str) -> list[str]:
    """What runs in the containers of a Deployment."""
    found = await cluster.client.get(Deployment, deployment, SYSTEM_NAMESPACE)
    (container,) = found.spec.template.spec.containers
    return [*container.command, *container.args]


class Replica(NamedTuple):
    """A process in the place of a pod."""

    process: asyncio.subprocess.Process
    port: int

    async def is_ready(self) -> bool:
        """What a readiness probe finds."""
        return b" 200 " in (await self._get("/readyz")).partition(b"\n")[0]

    async def measured(self, sample: str) -> float:
        """The value of a metric, given by name and labels; 0 while it isn't there."""
        lines = (await self._get("/metrics")).decode().splitlines()
        return next((float(each.rpartition(" ")[2]) for each in lines if each.startswith(f"{sample} ")), 0.0)

    async def _get(self, path: str) -> bytes:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return b""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


class Kubelet:
    """Starts what Deployments ask for, in processes of their own."""

    def __init__(self, cluster: Cluster, stack: AsyncExitStack) -> None:
        self._cluster, self._stack = cluster, stack
        self._started = 0

    async def start(self, deployment: str, *more: str, changed: Callable[[str], str] = lambda text: text) -> Replica:
        """One replica; killed at the end, or before. With `more` arguments, and its configuration file `changed`."""
        command = await command_of(self._cluster, deployment)
        service = command[2]
        await give_rights(self._cluster.client, service)
        (port,) = free_ports(1)
        arguments = [await self._here(deployment, each, port, changed) for each in command[1:]]
        self._started += 1
        log = self._file(f"{deployment}-{self._started}.log")
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name(command[0]),
                *arguments,
                f"--kubeconfig={kubeconfig_of(self._cluster.kubeconfig, service)}",
                *(["--plugin-server-port=0"] if "scheduler" in command[:3] else []),
                *more,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(os.environ),
            )
        self._stack.push_async_callback(_end, process, log)
        return Replica(process, port)

    async def _here(self, deployment: str, argument: str, port: int, changed: Callable[[str], str]) -> str:
        """What is different outside of a container: the mounted file, and addresses."""
        flag = next((each for each in _CONFIG_FILES if argument.startswith(each)), None)
        if flag is not None:
            file = self._file(f"{deployment}.yaml")
            file.write_text(changed(await self._mounted(deployment)))
            return f"{flag}{file}"
        return f"--listen=127.0.0.1:{port}" if argument.startswith("--listen=") else argument

    async def _mounted(self, deployment: str) -> str:
        client = self._cluster.client
        found = await client.get(Deployment, deployment, SYSTEM_NAMESPACE)
        (name,) = [each.configMap.name for each in found.spec.template.spec.volumes if each.configMap is not None]
        return (await client.get(ConfigMap, name, SYSTEM_NAMESPACE)).data["config.yaml"]

    def _file(self, name: str) -> Path:
        return self._cluster.kubeconfig.with_name(f"{self._cluster.namespace}-{name}")


async def _end(process: asyncio.subprocess.Process, log: Path) -> None:
    ended = process.returncode
    if ended is None:
        process.kill()
        await process.wait()
    assert ended is None or ended <= 0, f"ended by itself: {_end_of(log)}"


def _end_of(log: Path) -> str:
    return log.read_text()[-2000:]


def pooled_queue(name: str, pool: str) -> Queue:
    """A queue of a shard, without bounds."""
    free = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)
    spec = QueueSpec(resources=QueueResources(gpu=free, cpu=free, memory=free))
    return Queue(metadata=ObjectMeta(name=name, labels={NODE_POOL_LABEL: pool}), spec=spec)


def in_pool(manifest: dict[str, Any], pool: str) -> dict[str, Any]:
    """A workload whose pods belong to a shard."""
    manifest["spec"]["template"]["metadata"]["labels"][NODE_POOL_LABEL] = pool
    return manifest
