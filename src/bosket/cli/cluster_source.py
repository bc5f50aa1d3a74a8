"""Which cluster a command answers about: a live one, read under the caller's rights, or a snapshot file.

Commands take `SourceFlags` as one parameter and call `open_cluster`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Group, Parameter

from bosket.cli.output import CommandError, UsageError, complain
from bosket.cli.path import OptionalFilePath

if TYPE_CHECKING:
    from bosket.api.core import Event, Pod
    from bosket.api.kai import PodGroup
    from bosket.kube.client import Client
    from bosket.scheduler.answers.cluster import Cluster
    from bosket.scheduler.recording.recorded import Recorded
    from bosket.tools.live_cluster import LiveCluster

T = TypeVar("T")


@Parameter(name="*", group=Group("Which cluster", sort_key=2))
@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Which cluster.

    Parameters
    ----------
    snapshot
        A snapshot file (bosket snapshot, or KAI's) instead of a live cluster.
    kubeconfig
        Which cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    namespace
        The namespace of names without one, and all that is read where rights end there; by default the context's.
    shard
        The SchedulingShard, where the cluster has several.
    at
        The cluster as it was then, by its flight recording: a time of day such as 03:00, how long ago, such as 30m or
        2d, or a time such as 2026-01-02T03:04:05Z.
    recording
        The folder of the recording; by default the one that bosket up keeps beside the kubeconfig.
    """

    snapshot: OptionalFilePath = None
    kubeconfig: OptionalFilePath = None
    context: str | None = None
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"))] = None
    shard: str | None = None
    at: str | None = None
    recording: OptionalFilePath = None

    @property
    def is_recorded(self) -> bool:
        """Whether a file is looked at, and no live cluster."""
        return self.snapshot is not None or self.at is not None or self.recording is not None


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster to answer about, and how much of it was readable."""

    cluster: Cluster
    namespace: str  #: of names that are given without one
    is_live: bool
    #: by kind, why its objects are unknown, or only those of `namespace` known
    unread: Mapping[str, str] = field(default_factory=dict)
    is_limited: bool = False  #: whether the caller may read only `namespace`
    unserved: frozenset[str] = frozenset()  #: kinds that the cluster doesn't know


def open_cluster(flags: SourceFlags | None, *, is_known: bool = False) -> Source:
    """The cluster that the flags name; tells on standard error what of it can't be read or followed. `is_known`: of a
    live one that was told already."""
    from bosket.scheduler.answers.cluster import Cluster

    flags = flags or SourceFlags()
    if flags.is_recorded:
        recorded = _load(flags)
        cluster = Cluster(recorded, _moment(recorded), complain)
        _warn_of_missing(cluster)
        return Source(cluster, flags.namespace or "default", is_live=False)
    live, namespace = asyncio.run(_read(flags))
    cluster = Cluster(live.recorded, report=None if is_known else complain)
    if not is_known:
        for problem in live.problems:
            complain(problem)
        _warn_of_missing(cluster)
    return Source(
        cluster,
        namespace,
        is_live=True,
        unread=live.unread,
        is_limited=bool(live.namespace),
        unserved=live.unserved,
    )


def require_whole_cluster(source: Source, answer: str) -> None:
    """Refuses where the caller's rights show only a part of the cluster: `answer` ("a plan") would promise room that
    others hold."""
    unknown = [each for each in ("Node", "Queue", "PodGroup", "Pod") if each in source.unread]
    if unknown:
        raise CommandError(
            f"your rights don't show every {' and '.join(unknown)} of the cluster, and {answer} on a part of it would "
            "be wrong; an administrator can grant get and list, or give you a snapshot (bosket snapshot) for --snapshot"
        )


@dataclass(frozen=True, slots=True)
class History:
    """Events and the objects that they are about, and how much of them was readable."""

    events: Sequence[Event]  #: none of a snapshot
    groups: Sequence[PodGroup]
    pods: Sequence[Pod]
    now: float
    namespace: str
    is_live: bool
    unread: Mapping[str, str] = field(default_factory=dict)
    is_limited: bool = False
    unserved: frozenset[str] = frozenset()


def open_history(flags: SourceFlags | None) -> History:
    """What happened in the cluster that the flags name."""
    from bosket.api.core import Pod
    from bosket.api.kai import PodGroup
    from bosket.tools.live_cluster import read_history

    flags = flags or SourceFlags()
    if flags.is_recorded:
        recorded = _load(flags)
        groups = [each for each in recorded.objects.get("podGroups", ()) if isinstance(each, PodGroup)]
        pods = [each for each in recorded.objects.get("pods", ()) if isinstance(each, Pod)]
        return History((), groups, pods, _moment(recorded), flags.namespace or "default", is_live=False)
    live, namespace = asyncio.run(_ask(flags, lambda client, namespace: read_history(client, namespace=namespace)))
    return History(
        live.events,
        live.groups,
        live.pods,
        time.time(),
        namespace,
        is_live=True,
        unread=live.unread,
        is_limited=live.is_limited,
        unserved=live.unserved,
    )


def _load(flags: SourceFlags) -> Recorded:
    """The snapshot, or the moment of a recording, that the flags name; tells what of it can't be read."""
    from bosket.cli.recorded_moment import open_moment
    from bosket.scheduler.recording.recorded import RecordedError, load

    if flags.snapshot is None:
        if flags.context is not None:
            raise UsageError("--at and --context were given: a recording has one cluster")
        return open_moment(flags.recording, flags.at, flags.kubeconfig, flags.shard or "").recorded
    if flags.at is not None or flags.recording is not None:
        raise UsageError("--snapshot and --at or --recording were given: which of them?")
    if flags.kubeconfig is not None or flags.context is not None or flags.shard is not None:
        raise UsageError("--snapshot and --kubeconfig, --context or --shard were given: which of them?")
    try:
        recorded = load(flags.snapshot)
    except RecordedError as error:
        raise UsageError(str(error)) from error
    for problem in recorded.unreadable:
        complain(problem)
    return recorded


def _moment(recorded: Recorded) -> float:
    return recorded.now if recorded.now is not None else time.time()


async def _read(flags: SourceFlags) -> tuple[LiveCluster, str]:
    from bosket.cli.interpretation import interpret
    from bosket.tools.live_cluster import LiveClusterError, read_cluster

    def options_of(arguments: Sequence[str]) -> object | None:
        return interpret("scheduler", arguments)

    try:
        return await _ask(
            flags,
            lambda client, namespace: read_cluster(
                client, namespace=namespace, shard=flags.shard or "", interpret=options_of
            ),
        )
    except LiveClusterError as error:
        raise CommandError(str(error)) from error


async def _ask(flags: SourceFlags, question: Callable[[Client, str], Awaitable[T]]) -> tuple[T, str]:
    """The answer of the cluster that the flags name, and the namespace of names without one."""
    from bosket.kube.client import Client
    from bosket.kube.http import HttpTransport
    from bosket.kube.kubeconfig import find

    config = find(flags.kubeconfig, flags.context)
    namespace = flags.namespace or config.namespace
    client = Client(HttpTransport(config))
    try:
        return await question(client, namespace), namespace
    finally:
        await client.aclose()


def _warn_of_missing(cluster: Cluster) -> None:
    if cluster.missing:
        complain(f"the configuration names what isn't installed and is left out: {', '.join(cluster.missing)}")
