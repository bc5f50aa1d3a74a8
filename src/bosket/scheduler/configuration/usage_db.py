"""`usageDBConfig` of the configuration: where the history of what queues used is found. Checked here, used by
`bosket.scheduler.usage`, which also knows the parameters.

`configuration_file` calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from bosket.api.kai import UsageDBConfig
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_parameters import parameters_from

_WHERE: Final = "usageDBConfig"
#: `builtin` is Bosket's own; the last two are for tests, as in KAI.
CLIENT_TYPES: Final = ("prometheus", "builtin", "fake", "fake-with-history")


def usage_db_from(document: Any, report: Callable[[str], None] | None = None) -> UsageDBConfig:
    """Reads and checks the section; raises `ConfigurationError` with the field that is wrong.

    `report` is called with settings that have no effect.
    """
    try:
        config = msgspec.convert(document, UsageDBConfig)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise ConfigurationError(f"{_WHERE}{path.rstrip('`')}: {text}") from error
    if not config.clientType:
        raise ConfigurationError(f"{_WHERE}.clientType is missing")
    if config.connectionString and config.connectionStringEnvVar:
        raise ConfigurationError(f"{_WHERE} has both connectionString and connectionStringEnvVar, only one can count")
    if config.clientType not in CLIENT_TYPES:
        known = ", ".join(CLIENT_TYPES)
        raise ConfigurationError(f"{_WHERE}.clientType is {config.clientType!r}; known are {known}")
    if config.clientType == "prometheus" and not (config.connectionString or config.connectionStringEnvVar):
        raise ConfigurationError(f"{_WHERE} has neither connectionString nor connectionStringEnvVar")
    parameters_from(config.usageParams, report)
    return config


def usage_db_document(config: UsageDBConfig) -> dict[str, Any]:
    """The section as it is written down for others: without user, password and query in the address."""
    document: dict[str, Any] = msgspec.to_builtins(config)
    if config.connectionString:
        scheme, separator, address = config.connectionString.partition("?")[0].rpartition("://")
        host, slash, path = address.partition("/")
        document["connectionString"] = f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return document
