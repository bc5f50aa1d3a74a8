"""The binder's own plugins: which there are, in which order, which of them by default, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bosket.api.kai import PluginConfig
from bosket.binder.gpu_sharing import GpuSharing
from bosket.binder.hami_core import HamiCore
from bosket.binder.options import Options
from bosket.binder.plugin import BindPlugin
from bosket.binder.received_resource import ReceivedResource
from bosket.runtime.service import Environment

Arguments = Mapping[str, str]
_CDI_ENABLED: Final = "cdiEnabled"


class InvalidPluginSettings(ValueError):
    """Settings that make no sense; the message names the plugin, the field and what would be right."""


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One plugin that comes with the binder."""

    make: Callable[[Environment, Options, Arguments], BindPlugin]
    #: What it can be told.
    arguments: frozenset[str] = frozenset()
    enabled: bool = True


def _gpu_sharing(env: Environment, options: Options, arguments: Arguments) -> BindPlugin:
    return GpuSharing(env, options, cdi_enabled=arguments.get(_CDI_ENABLED) == "true")


PLUGINS: Final = {
    "gpusharing": PluginEntry(_gpu_sharing, frozenset({_CDI_ENABLED})),
    "hamicore": PluginEntry(lambda env, _options, _arguments: HamiCore(env.client), enabled=False),
    "receivedresource": PluginEntry(lambda _env, _options, _arguments: ReceivedResource()),
}


def check_settings(settings: Mapping[str, PluginConfig]) -> None:
    """Raises `InvalidPluginSettings` for what no plugin understands."""
    for name, config in settings.items():
        entry = PLUGINS.get(name)
        if entry is None:
            raise InvalidPluginSettings(f'there is no plugin "{name}"; there are: {", ".join(PLUGINS)}')
        for argument, value in config.arguments.items():
            if argument not in entry.arguments:
                known = ", ".join(sorted(entry.arguments)) or "none"
                raise InvalidPluginSettings(f'plugin {name} has no argument "{argument}"; it has: {known}')
            if argument == _CDI_ENABLED and value not in ("true", "false"):
                raise InvalidPluginSettings(f'plugin {name}: {argument} is "{value}", expected "true" or "false"')


def make_plugins(env: Environment, options: Options) -> list[BindPlugin]:
    """The plugins that are switched on; raises `InvalidPluginSettings`."""
    check_settings(options.plugins)
    made = []
    for name, entry in PLUGINS.items():
        config = options.plugins.get(name, PluginConfig())
        if not (entry.enabled if config.enabled is None else config.enabled):
            continue
        plugin = entry.make(env, options, config.arguments)
        if config.priority is not None:
            plugin.priority = config.priority
        made.append(plugin)
    return made
