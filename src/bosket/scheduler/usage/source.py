"""The one question that every store of history answers: what had the queues used, as of a time?

`live.py` asks it in the background; `open_source` makes the store that the configuration names. A store opens files and
connections when it is first asked, so that one that can't be had is an answer that fails, not a scheduler that doesn't
start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from bosket.api.kai import UsageDBConfig
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_db import CLIENT_TYPES
from bosket.scheduler.configuration.usage_parameters import Parameters, parameters_from
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.history import Sample


class UsageUnavailable(Exception):
    """The history can't be had now; the message says why. What was known before stays."""


class UsageSource(Protocol):
    """A store of what queues held in the past."""

    async def fetch(self, now: float) -> Usage:
        """The use of the window that ends at `now` (epoch seconds); raises `UsageUnavailable`. May be cancelled."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class SampledSource(UsageSource, Protocol):
    """A store that knows only what it is told."""

    @property
    def sample_interval_seconds(self) -> float: ...

    async def record(self, sample: Sample) -> None:
        """What queues hold now; raises `UsageUnavailable` when it will not survive the process."""
        ...


def open_source(config: UsageDBConfig, environment: Mapping[str, str] = os.environ) -> UsageSource:
    """The store that the configuration names; raises `ConfigurationError` with the field that is wrong."""
    parameters = parameters_from(config.usageParams)
    connection = _connection(config, environment)
    match config.clientType:
        case "prometheus":
            from bosket.scheduler.usage.prometheus import connect

            return connect(connection, parameters)
        case "builtin":
            return _builtin(connection, parameters)
        case "fake-with-history":  # of KAI's tests, where the connection stands for nothing
            return _builtin("", parameters)
        case "fake":
            from bosket.scheduler.usage.fake import FakeUsage

            return FakeUsage()
        case other:
            raise ConfigurationError(f"usageDBConfig.clientType is {other!r}; known are {', '.join(CLIENT_TYPES)}")


def _builtin(path: str, parameters: Parameters) -> UsageSource:
    from bosket.scheduler.usage.builtin import BuiltinUsage

    return BuiltinUsage(parameters, path)


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
