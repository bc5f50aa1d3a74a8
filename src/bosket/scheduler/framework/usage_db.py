"""`usageDBConfig` of the configuration: where the history of what queues used is found. Checked here, read later.

`configuration_file` calls this; the time-based fair share will use what it carries.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bosket.api.kai import UsageDBConfig, UsageParams
from bosket.api.time import InvalidDuration, InvalidTime, parse_duration, parse_time
from bosket.scheduler.framework.configuration import ConfigurationError

_WHERE: Final = "usageDBConfig"
_WINDOW: Final = re.compile(r"(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?|0", re.ASCII)
_WINDOW_TYPES: Final = ("sliding", "tumbling", "cron")
_DEFAULT_SECONDS: Final = {"fetchInterval": 60.0, "stalenessPeriod": 300.0}


def usage_db_from(document: Any) -> UsageDBConfig:
    """Reads and checks the section; raises `ConfigurationError` with the field that is wrong."""
    try:
        config = msgspec.convert(document, UsageDBConfig)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise ConfigurationError(f"{_WHERE}{path.rstrip('`')}: {text}") from error
    if not config.clientType:
        raise ConfigurationError(f"{_WHERE}.clientType is missing")
    if config.connectionString and config.connectionStringEnvVar:
        raise ConfigurationError(f"{_WHERE} has both connectionString and connectionStringEnvVar, only one can count")
    if config.clientType == "prometheus" and not (config.connectionString or config.connectionStringEnvVar):
        raise ConfigurationError(f"{_WHERE} has neither connectionString nor connectionStringEnvVar")
    _check(config.usageParams or UsageParams())
    return config


def usage_db_document(config: UsageDBConfig) -> dict[str, Any]:
    """The section as it is written down for others: without user, password and query in the address."""
    document: dict[str, Any] = msgspec.to_builtins(config)
    if config.connectionString:
        scheme, separator, address = config.connectionString.partition("?")[0].rpartition("://")
        host, slash, path = address.partition("/")
        document["connectionString"] = f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return document


def _check(params: UsageParams) -> None:
    where = f"{_WHERE}.usageParams"
    seconds = dict(_DEFAULT_SECONDS)
    for name in ("halfLifePeriod", "fetchInterval", "stalenessPeriod", "waitTimeout"):
        text = getattr(params, name)
        if text is None:
            continue
        try:
            seconds[name] = parse_duration(text)
        except InvalidDuration as error:
            raise ConfigurationError(f"{where}.{name}: {error}") from error
        if seconds[name] < 0:
            raise ConfigurationError(f"{where}.{name} is {text}, it must not be negative")
    if seconds["stalenessPeriod"] < seconds["fetchInterval"]:
        raise ConfigurationError(f"{where}.stalenessPeriod must be at least the fetchInterval")
    if params.windowSize is not None and not _WINDOW.fullmatch(params.windowSize):
        raise ConfigurationError(f"{where}.windowSize is {params.windowSize!r}, it must be a duration such as 1w or 2d")
    if (params.windowType or "sliding") not in _WINDOW_TYPES:
        known = ", ".join(_WINDOW_TYPES)
        raise ConfigurationError(f"{where}.windowType is {params.windowType!r}; known are {known}")
    if params.windowType == "tumbling":
        try:
            parse_time(params.tumblingWindowStartTime or "")
        except InvalidTime as error:
            raise ConfigurationError(f"{where}.tumblingWindowStartTime: {error}") from error
    if params.windowType == "cron" and not params.cronString:
        raise ConfigurationError(f"{where}.cronString is missing, windowType is cron")
