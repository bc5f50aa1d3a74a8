"""Settings of Config and shards that can't be followed, by the operator's own rules, and the database of past use."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from bosket.api.kai import Config, SchedulingShard, UsageDBConfig
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_db import usage_db_from
from bosket.scheduler.framework.plugin import installed_plugins
from bosket.scheduler.plugins import BUILT_IN
from bosket.services.operator.check import Problem, config_problems, shard_problems
from bosket.services.operator.common import Common
from bosket.services.operator.options import Options
from bosket.services.operator.scheduler_file import GENERATORS, idle_actions
from bosket.services.operator.shard import not_understood
from bosket.tools.doctor.checks.deployment import PROMETHEUS_FAILED
from bosket.tools.doctor.finding import Finding, Severity, named
from bosket.tools.doctor.installation import Installation


def check(installation: Installation) -> Iterator[Finding]:
    """Fields, plugins and flags that can't be followed, and a usage database that can't be used."""
    if installation.config is not None:
        for problem in config_problems(installation.spec):
            yield _wrong("config-setting-wrong", installation.config, problem)
    common = Common(installation.config or Config(), Options())
    for shard in installation.bundle.of(SchedulingShard):
        problems = shard_problems(shard, common, ()) if installation.bundle.knows(Config) else []
        for problem in problems:
            yield _wrong("shard-setting-wrong", shard, problem)
        yield from _check_plugins(shard)
        yield from _check_generators(shard)
        yield from _check_arguments(shard)
        about_usage = any(problem.field.startswith("spec.usageDBConfig") for problem in problems)
        if shard.spec.usageDBConfig is not None and not about_usage:
            yield from _check_usage(shard, shard.spec.usageDBConfig)
    yield from _check_prometheus(installation)


def _wrong(code: str, obj: Config | SchedulingShard, problem: Problem) -> Finding:
    kind = type(obj).__name__.lower()
    return Finding(
        code,
        Severity.ERROR,
        named(obj),
        problem.field,
        f"the operator can't follow it, and leaves everything as it is: {problem.field} {problem.sentence}",
        "correct the field",
        f"kubectl edit {kind}.kai.scheduler {obj.metadata.name}",
    )


def _check_prometheus(installation: Installation) -> Iterator[Finding]:
    objects: list[Config | SchedulingShard] = [
        *installation.bundle.of(Config),
        *installation.bundle.of(SchedulingShard),
    ]
    for obj in objects:
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


def _check_generators(shard: SchedulingShard) -> Iterator[Finding]:
    if idle := idle_actions(shard.spec):
        yield Finding(
            "shard-never-evicts",
            Severity.WARNING,
            named(shard),
            "spec.plugins",
            f"no plugin that generates scenarios is on, so {', '.join(idle)} will never evict anybody",
            f"switch {' or '.join(sorted(GENERATORS))} on, or these actions off",
            f"kubectl edit schedulingshard {shard.metadata.name}",
        )


def _check_arguments(shard: SchedulingShard) -> Iterator[Finding]:
    for name in not_understood(shard):
        yield Finding(
            "shard-argument-unknown",
            Severity.WARNING,
            named(shard),
            f"spec.args.{name}",
            f"the scheduler has no flag --{name}, so the operator leaves it out",
            "correct the name, or remove it",
            f"kubectl edit schedulingshard {shard.metadata.name}",
        )


def _check_usage(shard: SchedulingShard, config: UsageDBConfig) -> Iterator[Finding]:
    if config.clientType == "prometheus" and not (config.connectionString or config.connectionStringEnvVar):
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
