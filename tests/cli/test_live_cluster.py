"""What is read of a live cluster is what its scheduler decides on: shard, settings, and what that one remembers."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bosket.api.core import ConfigMap, Node
from bosket.api.kai import Config, Queue, SchedulingShard
from bosket.api.kai.shard import PlacementStrategy, SchedulingShardSpec, UsageDBConfig
from bosket.api.keys import NODE_POOL_LABEL
from bosket.api.object import ObjectMeta
from bosket.cli.cluster_source import SourceFlags, open_cluster
from bosket.cli.interpretation import interpret
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.kube.client import Client
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.io.memory_store import MEMORY, config_map_name
from bosket.scheduler.state.own.memory import KeptBackoff, Memory, encode
from bosket.testing.build import job, node, queue
from bosket.tools.live_cluster import LiveClusterError, read_cluster


@asynccontextmanager
async def cluster(kubeconfig: Path | None = None) -> AsyncIterator[Client]:
    """An API server with the kinds and one queue, and nobody who acts on it."""
    listen = Listen(kubeconfig=kubeconfig) if kubeconfig is not None else None
    async with EmbeddedCluster(nodes=0, services=(), listen=listen) as embedded:
        await embedded.wait_ready()
        client = embedded.client()
        await client.create(queue("team", quota=4))
        yield client


def shard(name: str, **spec: object) -> SchedulingShard:
    return SchedulingShard(metadata=ObjectMeta(name=name), spec=SchedulingShardSpec(**spec))  # type: ignore[arg-type]


def pooled(obj: Node | Queue, pool: str) -> Node | Queue:
    obj.metadata.labels[NODE_POOL_LABEL] = pool
    return obj


async def test_without_a_shard_it_is_read_as_by_a_scheduler_with_defaults() -> None:
    async with cluster() as client:
        await client.create(node("n"))
        found = await read_cluster(client)
        assert (found.unread, found.namespace, found.problems) == ({}, "", ())
        assert found.recorded.parameters.scheduler_name == "kai-scheduler"
        assert {each.key.name for each in found.recorded.objects["nodes"]} == {"n"}


async def test_of_several_shards_the_named_one_counts_and_only_its_objects() -> None:
    async with cluster() as client:
        for name, pool in (("a", "pool-a"), ("b", "pool-b")):
            await client.create(shard(name, partitionLabelValue=pool))
            await client.create(pooled(node(f"of-{name}"), pool))
        with pytest.raises(LiveClusterError, match="there are several SchedulingShards, choose one with --shard: a, b"):
            await read_cluster(client)
        of_b = Cluster((await read_cluster(client, shard="b")).recorded)
        assert [each.metadata.name for each in of_b.snapshot().nodes.nodes] == ["of-b"]
        with pytest.raises(LiveClusterError, match="there is no SchedulingShard c; there are: a, b"):
            await read_cluster(client, shard="c")
        await client.create(shard("default"))
        await client.create(node("of-nobody"))
        found = Cluster((await read_cluster(client)).recorded)
        assert [each.metadata.name for each in found.snapshot().nodes.nodes] == ["of-nobody"], "the default one"


async def test_settings_of_the_shard_are_those_of_the_decisions() -> None:
    async with cluster() as client:
        await client.create(
            shard(
                "default",
                placementStrategy=PlacementStrategy(gpu="spread", cpu="spread"),
                args={"full-hierarchy-fairness": "false", "max-consolidation-preemptees": "3", "log-level": "debug"},
            )
        )
        found = await read_cluster(client, interpret=lambda arguments: interpret("scheduler", arguments))
        assert found.problems == ()
        assert any(choice.name == "gpuspread" for choice in found.recorded.configuration.plugins)
        assert found.recorded.configuration.settings.max_consolidation_preemptees == 3
        assert found.recorded.parameters.full_hierarchy_fairness is False


async def test_arguments_that_cannot_be_followed_are_told_and_cost_nothing_else() -> None:
    async with cluster() as client:
        await client.create(shard("default", args={"max-consolidation-preemptees": "many"}))
        found = await read_cluster(client, interpret=lambda arguments: interpret("scheduler", arguments))
        (problem,) = found.problems
        assert problem.startswith("SchedulingShard default: spec.args is not followed: ")
        assert "many" in problem
        assert found.recorded.objects["queues"]


async def test_what_the_config_calls_the_scheduler_is_followed() -> None:
    async with cluster() as client:
        await client.create(
            Config(metadata=ObjectMeta(name="kai-config"), spec={"global": {"schedulerName": "other"}})  # type: ignore[arg-type]
        )
        found = await read_cluster(client)
        assert found.recorded.parameters.scheduler_name == "other"


async def test_what_the_scheduler_remembers_over_restarts_is_known_too() -> None:
    async with cluster() as client:
        _, pod = [await client.create(each) for each in job("waits", gpus=2, queue="team")]
        kept = Memory(backoffs=(KeptBackoff(pod.key, pod.metadata.uid, 2, time.time() + 600),))
        name = config_map_name("kai-scheduler")
        await client.create(
            ConfigMap(
                metadata=ObjectMeta(name=name, namespace="kai-scheduler"),
                binaryData={MEMORY: base64.b64encode(encode(kept)).decode()},
            )
        )
        assert (await read_cluster(client)).recorded.held == (pod.key,), "its binding failed a short while ago"
        await client.patch(ConfigMap, name, {"binaryData": {MEMORY: "bm9uc2Vuc2U="}}, namespace="kai-scheduler")
        found = await read_cluster(client)
        assert found.recorded.held == (), "what can't be read is left out"
        assert found.recorded.objects["pods"]


async def test_a_command_reads_the_cluster_of_its_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster(kubeconfig) as client:
        usage = UsageDBConfig(clientType="prometheus", connectionString="http://p:9090")
        await client.create(shard("default", args={"max-consolidation-preemptees": "many"}, usageDBConfig=usage))
        source = await asyncio.to_thread(open_cluster, SourceFlags(kubeconfig=kubeconfig, namespace="ml"))
        assert (source.is_live, source.namespace, source.is_limited) == (True, "ml", False)
        assert "team" in source.cluster.snapshot().queues.rows
        complaints = capsys.readouterr().err
        assert "spec.args is not followed" in complaints
        assert "spec.usageDBConfig is not followed: what queues used in the past is not known here" in complaints
        await asyncio.to_thread(open_cluster, SourceFlags(kubeconfig=kubeconfig), is_known=True)
        assert capsys.readouterr().err == ""
