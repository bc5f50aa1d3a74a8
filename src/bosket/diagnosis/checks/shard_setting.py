"""Settings of shards that their scheduler can't follow, and the database of past use."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from bosket.api.kai import Config, SchedulingShard, UsageDBConfig
from bosket.diagnosis.checks.deployment import PROMETHEUS_FAILED
from bosket.diagnosis.finding import Finding, Severity, named
from bosket.diagnosis.installation import Installation
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.framework.configuration import ConfigurationError
from bosket.scheduler.framework.plugin import installed_plugins
from bosket.scheduler.framework.usage_db import usage_db_from
from bosket.scheduler.plugins import BUILT_IN


def check(installation: Installation) -> Iterator[Finding]:
    """Plugins and actions that there aren't, and a usage database that can't be used."""
    for shard in installation.bundle.of(SchedulingShard):
        yield from _check_plugins(shard)
        yield from _check_actions(shard)
        if shard.spec.usageDBConfig is not None:
            yield from _check_usage(installation, shard, shard.spec.usageDBConfig)
    told: list[Config | SchedulingShard] = [*installation.bundle.of(Config), *installation.bundle.of(SchedulingShard)]
    for obj in told:
        for condition in obj.status.conditions:
            if condition.reason == PROMETHEUS_FAILED:
                yield Finding(
                    "usage-unreachable",
                    Severity.ERROR,
                    named(obj),
                    f"status.conditions[{condition.type}]",
                    f"Prometheus doesn't answer, so past use doesn't count in fair shares: {condition.message}",
                    "see whether the address is right, and whether Prometheus runs there",
                    f"kubectl get {type(obj).__name__.lower()}.kai.scheduler {obj.metadata.name} -o yaml",
                )


def known_plugins() -> frozenset[str]:
    """Names of the scheduler plugins that are here: ours, and those of installed packages."""
    return frozenset({*BUILT_IN, *installed_plugins()})


def _check_plugins(shard: SchedulingShard) -> Iterator[Finding]:
    for name, plugin in shard.spec.plugins.items():
        if name in known_plugins() or plugin.enabled is False:
            continue
        yield Finding(
            "shard-plugin-unknown",
            Severity.ERROR,
            named(shard),
            f"spec.plugins.{name}",
            f'the scheduler has no plugin "{name}"; known are {", ".join(sorted(known_plugins()))}',
            "correct the name, install the package that has it into the image, or remove it",
            f"kubectl edit schedulingshard {shard.metadata.name}",
        )


def _check_actions(shard: SchedulingShard) -> Iterator[Finding]:
    fields = [*(("actions", name) for name in shard.spec.actions)]
    fields += [("queueDepthPerAction", name) for name in shard.spec.queueDepthPerAction]
    for field, name in fields:
        if name in ACTIONS:
            continue
        yield Finding(
            "shard-action-unknown",
            Severity.ERROR,
            named(shard),
            f"spec.{field}.{name}",
            f'the scheduler has no action "{name}"; known are {", ".join(ACTIONS)}',
            "correct the name, or remove it",
            f"kubectl edit schedulingshard {shard.metadata.name}",
        )


def _check_usage(installation: Installation, shard: SchedulingShard, config: UsageDBConfig) -> Iterator[Finding]:
    address = config.connectionString or config.connectionStringEnvVar
    prometheus = installation.spec.prometheus
    from_config = prometheus is not None and bool(prometheus.enabled or prometheus.externalPrometheusUrl)
    if config.clientType == "prometheus" and not address and installation.bundle.knows(Config):
        if not from_config:
            yield Finding(
                "usage-address-missing",
                Severity.ERROR,
                named(shard),
                "spec.usageDBConfig.connectionString",
                "the shard wants to know past use from Prometheus, and nobody says where that is",
                "set the address here, or prometheus.enabled or prometheus.externalPrometheusUrl in the Config",
                f"kubectl edit schedulingshard {shard.metadata.name}",
            )
            return
        config = replace(config, connectionString="http://prometheus")  # the operator fills it in
    try:
        usage_db_from(msgspec.to_builtins(config))
    except ConfigurationError as error:
        yield Finding(
            "usage-setting-wrong",
            Severity.ERROR,
            named(shard),
            "spec.usageDBConfig",
            f"the scheduler can't start with it: {error}",
            "correct the field",
            f"kubectl edit schedulingshard {shard.metadata.name}",
        )
