"""A live cluster as a recording: everything a scheduling decision depends on, read through the API server.

The commands that answer questions (`explain`, `plan`, `queues`, …) read a cluster here under the rights of whoever
runs them. A kind that may not be listed in the whole cluster is listed in one namespace; what can't be read at all is
named in `LiveCluster.unread`. Nothing is written.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bosket.api.core import ConfigMap, Event, Pod
from bosket.api.kai import Config, PodGroup, SchedulingShard
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.object import KubeObject
from bosket.api.table import resource_of
from bosket.kube.client import Client
from bosket.kube.codec import Kind, metadata_of
from bosket.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from bosket.runtime.concurrent import for_each
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import parse_configuration
from bosket.scheduler.io.memory_store import MEMORY, config_map_name
from bosket.scheduler.options import Options as SchedulerOptions
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import Recorded
from bosket.scheduler.recording.writer import parameters_of
from bosket.scheduler.state.own.memory import NO_MEMORY, Memory, UnreadableMemory, decode
from bosket.services.operator.common import Common
from bosket.services.operator.options import Options as OperatorOptions
from bosket.services.operator.scheduler_file import render
from bosket.services.operator.shard import lease_name

#: Arguments of a scheduler on which its decisions depend.
_DECISIVE_ARGUMENTS: Final = frozenset(
    {
        "allow-consolidating-reclaim",
        "cpu-worker-node-label-key",
        "default-staleness-grace-period",
        "evict-by-deletion",
        "full-hierarchy-fairness",
        "gpu-worker-node-label-key",
        "max-consolidation-preemptees",
        "restrict-node-scheduling",
        "schedule-csi-storage",
        "stuck-in-releasing-threshold",
        "use-scheduling-signatures",
    }
)
#: Requests that are under way at a time.
_AT_A_TIME: Final = 8
#: Begins what is said of a kind of which only the objects of one namespace may be read.
ONLY_NAMESPACE: Final = "only those of namespace"
#: The shard that is meant where several exist and none is named.
DEFAULT_SHARD: Final = "default"


class LiveClusterError(Exception):
    """A cluster that can't be read; the message is one sentence for the person who asked."""


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """What was read."""

    recorded: Recorded
    #: by kind, why its objects are unknown or only those of `namespace` are known
    unread: Mapping[str, str]
    #: the one namespace to which the reader's rights are limited; empty where the whole cluster was read
    namespace: str = ""
    unserved: frozenset[str] = frozenset()  #: kinds that the cluster doesn't know
    problems: tuple[str, ...] = ()  #: what of the shard's settings isn't followed, a sentence each


#: The options of a scheduler that is started with these arguments; None for its default ones. Raises ValueError.
Interpreter = Callable[[Sequence[str]], object | None]


async def read_cluster(
    client: Client,
    *,
    namespace: str = "default",
    shard: str = "",
    now: float | None = None,
    interpret: Interpreter | None = None,
) -> LiveCluster:
    """Reads the cluster. `namespace`: the fallback for kinds that may not be listed cluster-wide; `shard`: the name of
    a SchedulingShard where there are several; `interpret`: what understands the arguments that a shard gives its
    scheduler. Raises KubeError when the server doesn't answer."""
    reader = _Reader(client, namespace)
    names = list(LISTS)
    kinds: list[type[KubeObject]] = [Config, *(LISTS[name].kind for name in names)]
    shards = await reader.read(SchedulingShard)  # alone: a server that doesn't answer is waited for once
    configs, *lists = await for_each(kinds, reader.read, at_once=_AT_A_TIME)
    chosen = _chosen(shards, shard)
    common = Common(configs[0] if configs else Config(), OperatorOptions())
    scheduler, problem = _scheduler_options(chosen, interpret)
    configuration = replace(
        parse_configuration(render(chosen.spec, common), known_actions=ACTIONS),
        settings=scheduler.configuration.settings,
    )
    options = replace(
        scheduler.state(),
        scheduler_name=common.scheduler_name,
        node_pool_label=common.node_pool_label_key,
        node_pool=chosen.spec.partitionLabelValue,
        access_control=common.access_control,
    )
    problems = tuple(filter(None, (problem, _unknown_usage(chosen, configuration))))
    recorded = Recorded(
        configuration=configuration,
        parameters=parameters_of(options, configuration.settings),
        objects=dict(zip(names, map(tuple, lists), strict=True)),
        now=time.time() if now is None else now,
    )
    memory = await _memory(client, lease_name(chosen, common))
    if memory is not NO_MEMORY:
        recorded = _with_memory(recorded, memory)
    limited_to = namespace if reader.is_limited else ""
    return LiveCluster(recorded, reader.unread, limited_to, frozenset(reader.unserved), problems)


@dataclass(frozen=True, slots=True)
class LiveHistory:
    """Events, and the objects that they are about."""

    events: Sequence[Event]
    groups: Sequence[PodGroup]
    pods: Sequence[Pod]
    #: by kind, why its objects are unknown or only those of the namespace are known
    unread: Mapping[str, str]
    is_limited: bool
    unserved: frozenset[str]  #: kinds that the cluster doesn't know


async def read_history(client: Client, *, namespace: str = "default") -> LiveHistory:
    """Reads what `bosket.tools.history` needs. Raises KubeError when the server doesn't answer."""
    reader = _Reader(client, namespace)
    groups = await reader.read(PodGroup)
    kinds: list[type[KubeObject]] = [Event, Pod]
    events, pods = await for_each(kinds, reader.read)
    return LiveHistory(events, groups, pods, reader.unread, reader.is_limited, frozenset(reader.unserved))


class _Reader:
    """Lists kinds, and notes which can't be listed."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self.unread: dict[str, str] = {}
        self.unserved: set[str] = set()
        self.is_limited = False

    async def read(self, kind: type[KubeObject]) -> Sequence[Any]:
        # Of ConfigMaps only their existence matters, and their contents may be large or private.
        wanted: Kind[Any] = metadata_of(kind) if kind is ConfigMap else kind
        try:
            return (await self._client.list(wanted)).items
        except NotFound:
            self.unserved.add(kind.__name__)
            return ()
        except Unauthorized:
            raise  # nothing at all can be read
        except Forbidden as error:
            return await self._read_namespace(kind, wanted, error)
        except ApiError as error:
            self.unread[kind.__name__] = str(error)
            return ()

    async def _read_namespace(self, kind: type[KubeObject], wanted: Kind[Any], error: Forbidden) -> Sequence[Any]:
        if not resource_of(kind).namespaced:
            self.unread[kind.__name__] = error.message
            return ()
        try:
            found = (await self._client.list(wanted, self._namespace)).items
        except ApiError as inner:
            self.unread[kind.__name__] = str(inner)
            return ()
        self.is_limited = True
        self.unread[kind.__name__] = f"{ONLY_NAMESPACE} {self._namespace} may be read"
        return found


def _chosen(shards: Sequence[SchedulingShard], name: str) -> SchedulingShard:
    """The shard with that name; by default the only one, or the one that is called default."""
    by_name = {each.metadata.name: each for each in shards}
    if name:
        if name not in by_name:
            raise LiveClusterError(f"there is no SchedulingShard {name}; there are: {', '.join(by_name) or 'none'}")
        return by_name[name]
    if len(shards) <= 1:
        return shards[0] if shards else SchedulingShard()
    if DEFAULT_SHARD in by_name:
        return by_name[DEFAULT_SHARD]
    raise LiveClusterError(f"there are several SchedulingShards, choose one with --shard: {', '.join(by_name)}")


def _scheduler_options(shard: SchedulingShard, interpret: Interpreter | None) -> tuple[SchedulerOptions, str]:
    """What the arguments of the shard mean for decisions; and why they can't be followed."""
    given = [f"--{key}={value}" for key, value in sorted(shard.spec.args.items()) if key in _DECISIVE_ARGUMENTS]
    if interpret is None or not given:
        return SchedulerOptions(), ""
    try:
        options = interpret(given)
    except ValueError as error:
        return SchedulerOptions(), f"SchedulingShard {shard.metadata.name}: spec.args is not followed: {error}"
    return options if isinstance(options, SchedulerOptions) else SchedulerOptions(), ""


def _unknown_usage(shard: SchedulingShard, configuration: Configuration) -> str:
    """What is said where fair shares rest on a database, which often only the scheduler can reach."""
    if configuration.usage_db is None:
        return ""
    return (
        f"SchedulingShard {shard.metadata.name}: spec.usageDBConfig is not followed: what queues used in the past is "
        "not known here, so fair shares and who goes first may differ from the scheduler's"
    )


async def _memory(client: Client, lease: str) -> Memory:
    """What the scheduler keeps over restarts: nominations and preemptions; nothing where that can't be read."""
    try:
        kept = await client.get(ConfigMap, config_map_name(lease), SYSTEM_NAMESPACE)
        return decode(base64.b64decode(kept.binaryData.get(MEMORY, ""), validate=True))
    except (ApiError, UnreadableMemory, binascii.Error):
        return NO_MEMORY


def _with_memory(recorded: Recorded, memory: Memory) -> Recorded:
    now = recorded.now or 0.0
    state = recorded.state()
    state.restore(memory, now)
    held = tuple(sorted(state.own.pods_backing_off(now)))
    return replace(recorded, commitments=state.own.commitments(now), held=held, run_times=state.run_times.entries())
