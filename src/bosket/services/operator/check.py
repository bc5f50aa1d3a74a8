"""Checks of a Config and a shard, by field. An invalid one isn't deployed: existing objects stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from bosket.api.kai.config import AdmissionWebhook, BinderConfig, ConfigSpec, SchedulerService
from bosket.api.kai.operand import PortMapping
from bosket.api.kai.shard import SchedulingShard
from bosket.services.operator.common import Common
from bosket.services.operator.scheduler_file import (
    ACTIONS,
    BINPACK,
    FRAGMENTATION,
    SPREAD,
    enabled_actions,
    prometheus_address,
)
from bosket.services.operator.shard import RECORDING_VALUE

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_SERVICE_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_DURATION: Final = re.compile(r"0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d|w))+", re.ASCII)
_PORT_NAMES: Final = frozenset({"port", "targetPort", "probePort", "metricsPort"})
_HAS_PORTS: Final = (AdmissionWebhook, BinderConfig, PortMapping, SchedulerService)
_AT_LEAST_ONE: Final = frozenset(
    {
        "maxConcurrentReconciles",
        "volumeBindingTimeoutSeconds",
        "allocationTimeout",
        "interval",
        "timeout",
        "qps",
        "burst",
    }
)


class Problem(NamedTuple):
    """A value that can't be followed."""

    field: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.field}: {self.sentence}"


def config_problems(spec: ConfigSpec, namespace: str = "") -> list[Problem]:
    """Everything that is wrong, by field. `namespace`: where the operator deploys, if that is known."""
    elsewhere = f'is "{spec.namespace}": this operator deploys in {namespace}, and has no rights elsewhere'
    is_elsewhere = bool(namespace and spec.namespace and spec.namespace != namespace)
    found = [Problem("spec.namespace", elsewhere)] if is_elsewhere else []
    return [*found, *_walk("spec", spec)]


def shard_problems(shard: SchedulingShard, common: Common, others: Iterable[SchedulingShard]) -> list[Problem]:
    """What is wrong with the shard, among all shards."""
    return [*_shard(shard, common), *_collisions(shard, others)]


def _walk(path: str, value: Any) -> Iterator[Problem]:
    """Rules that hold for a field of a name wherever it stands."""
    if not isinstance(value, msgspec.Struct):
        return
    for each in msgspec.structs.fields(value):
        name, inner = each.encode_name, getattr(value, each.name)
        if inner is None:
            continue
        where = f"{path}.{name}"
        if name in ("replicas", "replicaCount", "maxUnavailable") and inner < 0:
            yield Problem(where, f"is {inner}: it must be 0 or more")
        elif name in _AT_LEAST_ONE and isinstance(inner, int) and inner < 1:
            yield Problem(where, f"is {inner}: it must be 1 or more")
        elif name in _PORT_NAMES and isinstance(value, _HAS_PORTS) and not 1 <= inner <= 65535:
            yield Problem(where, f"is {inner}: a port is between 1 and 65535")
        elif name == "pullPolicy" and inner not in _PULL_POLICIES:
            yield Problem(where, f'is "{inner}": it must be one of {", ".join(_PULL_POLICIES)}')
        elif name == "gpuMemoryToFractionRatio" and not 0 < inner <= 1:
            yield Problem(where, f"is {inner:g}: it must be above 0 and at most 1")
        elif name == "type" and path.endswith(".schedulerService") and inner not in _SERVICE_TYPES:
            yield Problem(where, f'is "{inner}": it must be one of {", ".join(_SERVICE_TYPES)}')
        elif name not in ("affinity", "tolerations"):
            yield from _walk(where, inner)


def _shard(shard: SchedulingShard, common: Common) -> Iterator[Problem]:
    spec = shard.spec
    for name, known in (("gpu", (BINPACK, SPREAD, FRAGMENTATION)), ("cpu", (BINPACK, SPREAD))):
        strategy = getattr(spec.placementStrategy, name, None)
        if strategy is not None and strategy not in known:
            expected = f"{', '.join(known[:-1])} or {known[-1]}"
            yield Problem(f"spec.placementStrategy.{name}", f'is "{strategy}": it must be {expected}')
    for name in ("preemptMinRuntime", "reclaimMinRuntime"):
        duration = getattr(spec.minRuntime, name, None)
        if duration is not None and not _DURATION.fullmatch(duration):
            yield Problem(f"spec.minRuntime.{name}", f'is "{duration}": it must be a duration such as 10m')
    if spec.kValue is not None and spec.kValue < 0:
        yield Problem("spec.kValue", f"is {spec.kValue:g}: it must be 0 or more")
    if not _LABEL_VALUE.fullmatch(spec.partitionLabelValue):
        yield Problem("spec.partitionLabelValue", f'is "{spec.partitionLabelValue}": it must be a label\'s value')
    recording = spec.args.get("record", "")
    if recording and not RECORDING_VALUE.fullmatch(recording):
        yield Problem("spec.args.record", f'is "{recording}": it must be emptyDir, or claim/ with the name of a claim')
    for name in spec.actions:
        if name not in ACTIONS:
            yield Problem(f"spec.actions.{name}", f"there is no such action; there are {', '.join(ACTIONS)}")
    actions = enabled_actions(spec)
    for name in spec.queueDepthPerAction:
        if name not in actions:
            text = f"the scheduler's actions are {', '.join(actions)}; {name} isn't one of them"
            yield Problem(f"spec.queueDepthPerAction.{name}", text)
    usage = spec.usageDBConfig
    if usage is not None and usage.clientType == "prometheus":
        both = usage.connectionString and usage.connectionStringEnvVar
        if both:
            yield Problem("spec.usageDBConfig", "has connectionString and connectionStringEnvVar: give one of them")
        elif not (usage.connectionString or usage.connectionStringEnvVar or prometheus_address(common)):
            text = "no connection string: give one, or enable prometheus in the Config, or name an external one there"
            yield Problem("spec.usageDBConfig.connectionString", text)


def _collisions(shard: SchedulingShard, others: Iterable[SchedulingShard]) -> Iterator[Problem]:
    """Two schedulers for the same nodes would compete for one lease, with different settings."""
    value = shard.spec.partitionLabelValue
    elder = [
        each.metadata.name
        for each in others
        if each.metadata.uid != shard.metadata.uid and each.spec.partitionLabelValue == value and _is_elder(each, shard)
    ]
    if elder:
        shown = f'"{value}"' if value else "empty"
        yield Problem("spec.partitionLabelValue", f"is {shown}, which is SchedulingShard {min(elder)}'s already")


def _is_elder(one: SchedulingShard, another: SchedulingShard) -> bool:
    return (one.metadata.creationTimestamp or "", one.metadata.name) < (
        another.metadata.creationTimestamp or "",
        another.metadata.name,
    )
