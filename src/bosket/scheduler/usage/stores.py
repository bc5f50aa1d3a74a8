"""The table of usage stores: `open_source` makes the store that the configuration's `usageDBConfig` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.api.kai import UsageDBConfig
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_db import CLIENT_TYPES
from bosket.scheduler.configuration.usage_parameters import parameters_from
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.builtin import BuiltinUsage
from bosket.scheduler.usage.prometheus import connect
from bosket.scheduler.usage.source import UsageSource, UsageUnavailable


@dataclass(slots=True)
class FakeUsage:
    """A store with a fixed answer, for tests and for `clientType: fake`. Its fields may be changed at any time."""

    parts: Mapping[str, QueueAmounts] = field(default_factory=dict)
    failure: str = ""  #: the message of `UsageUnavailable`; empty where there is an answer
    asked: int = 0  #: number of calls of `fetch`

    async def fetch(self, now: float) -> Usage:
        self.asked += 1
        if self.failure:
            raise UsageUnavailable(self.failure)
        return Usage(dict(self.parts), now, "fake")

    async def aclose(self) -> None:
        pass


def open_source(config: UsageDBConfig, environment: Mapping[str, str] = os.environ) -> UsageSource:
    """The store that the configuration names; raises `ConfigurationError` with the field that is wrong."""
    parameters = parameters_from(config.usageParams)
    connection = _connection(config, environment)
    match config.clientType:
        case "prometheus":
            return connect(connection, parameters)
        case "builtin":
            return BuiltinUsage(parameters, connection)
        case "fake-with-history":  # of KAI's tests, where the connection stands for nothing
            return BuiltinUsage(parameters, "")
        case "fake":
            return FakeUsage()
        case other:
            raise ConfigurationError(f"usageDBConfig.clientType is {other!r}; known are {', '.join(CLIENT_TYPES)}")


def _connection(config: UsageDBConfig, environment: Mapping[str, str]) -> str:
    variable = config.connectionStringEnvVar
    if not variable:
        return config.connectionString
    value = environment.get(variable, "")
    if not value:
        raise ConfigurationError(
            f"usageDBConfig.connectionStringEnvVar names {variable}, which is not set in the environment"
        )
    return value
