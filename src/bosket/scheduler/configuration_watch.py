"""ConfigurationWatch: follows the scheduler's configuration, a file on disk or a ConfigMap.

The scheduler uses a new configuration from the next cycle on, keeping the live state. An invalid configuration changes
nothing: a log line, an event of the ConfigMap and a metric say what is wrong. A ConfigMap is watched through the API
server, because a kubelet takes up to a minute to update a mounted file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client import Counter

from bosket.api.core import ConfigMap
from bosket.api.object import ObjectKey
from bosket.kube.informer import Change
from bosket.runtime.service import Environment
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError
from bosket.scheduler.configuration.file import Report, parse_configuration
from bosket.scheduler.decide import known_part, make_plugins
from bosket.scheduler.options import Options
from bosket.scheduler.usage.stores import open_source

_log = logging.getLogger(__name__)

#: The key of the ConfigMap; KAI's.
FILE_KEY: Final = "config.yaml"
_FILE_SECONDS: Final = 1.0


def checked_configuration(text: str, report: Report | None = None) -> Configuration:
    """The configuration in a file, checked including the plugins' arguments; raises `ConfigurationError`.

    `report` is called with settings that have no effect.
    """
    configuration = parse_configuration(text, known_actions=ACTIONS, report=report)
    known, _ = known_part(configuration)  # of what is missing the scheduler warns
    if configuration.usage_db is not None:
        open_source(configuration.usage_db)  # which is only made, and asked for nothing yet
    make_plugins(known)  # which arguments there are is known to the plugins alone
    return configuration


class ConfigurationWatch:
    """Calls `take` with each new configuration; `take` raises `ConfigurationError` for an invalid one."""

    def __init__(self, env: Environment, options: Options, take: Callable[[Configuration], None]) -> None:
        self._clock, self._take = env.clock, take
        self._events = env.events.for_component(options.scheduler_name)
        self._file = options.configuration_file
        #: What flags say isn't in the file, and holds for every configuration.
        self._settings = options.configuration.settings
        self._text: str | None = None
        self._changes = Counter(
            "configuration_changes",
            "Configurations that the scheduler was given while it ran, by whether it follows them",
            ("result",),
            namespace=options.metrics_namespace,
            registry=env.metrics,
        )
        self._key = ObjectKey(env.namespace, options.configuration_map)
        self._maps = None
        if options.configuration_map:
            fields = f"metadata.name={options.configuration_map}"
            self._maps = env.informers.of(ConfigMap, namespace=env.namespace, fields=fields)
            self._maps.subscribe(self._map_changed)

    async def wait_synced(self) -> None:
        """Waits until the followed ConfigMap, if any, has been read."""
        if self._maps is not None:
            await self._maps.wait_synced()

    async def run(self) -> None:
        """Watches the file until cancelled; returns at once without a file or with a ConfigMap."""
        if self._file is None or self._maps is not None:
            return
        while True:
            # Also the first time: the process read the file when it started, and may have been on standby since then.
            text = _read(self._file)
            if text is not None:
                self._given(text, str(self._file))
            await self._clock.sleep(_FILE_SECONDS)

    def _map_changed(self, change: Change[ConfigMap]) -> None:
        new = change.new
        if new is None or new.key != self._key or FILE_KEY not in new.data:
            return  # a deleted ConfigMap leaves the present configuration in force
        problem = self._given(new.data[FILE_KEY], f"ConfigMap {new.key}")
        if problem:
            self._events.event(new, "Warning", "ConfigurationRefused", f"{problem}; the one before stays in force")

    def _given(self, text: str, where: str) -> str:
        """A text as it is now; returns why it can't be followed, empty if it is or was given before."""
        if text == self._text:
            return ""
        self._text = text
        try:
            configuration = checked_configuration(text, report=lambda problem: _log.warning("%s: %s", where, problem))
            self._take(replace(configuration, settings=self._settings))
        except ConfigurationError as error:
            problem = f"{FILE_KEY}: {' '.join(str(error).split())}"
            self._changes.labels("refused").inc()
            _log.error(
                "the configuration can't be followed; the one before stays in force",
                extra={"source": where, "error": problem},
            )
            return problem
        self._changes.labels("taken").inc()
        return ""


def _read(file: Path) -> str | None:
    """None while it can't be read: it may be in the middle of being replaced."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _log.debug("the configuration can't be read", extra={"file": str(file), "error": str(error)})
        return None
