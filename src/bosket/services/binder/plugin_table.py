"""The table of the binder's plugins: order, defaults and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bosket.api.kai import PluginConfig
from bosket.runtime.service import Environment
from bosket.services.binder.dynamic_resources import DynamicResources
from bosket.services.binder.gpu_sharing import GpuSharing
from bosket.services.binder.hami_core import HamiCore
from bosket.services.binder.options import Options
from bosket.services.binder.plugin import BindPlugin, ReceivedResource
from bosket.services.binder.volume_binding import VolumeBinding

Arguments = Mapping[str, str]
_CDI_ENABLED: Final = "cdiEnabled"
_BIND_TIMEOUT: Final = "bindTimeoutSeconds"


class InvalidPluginSettings(ValueError):
    """Settings that make no sense; the message names the plugin, the field and what would be right."""


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One plugin that comes with the binder."""

    make: Callable[[Environment, Options, Arguments], BindPlugin]
    #: Names of its arguments.
    arguments: frozenset[str] = frozenset()
    enabled: bool = True


def _gpu_sharing(env: Environment, options: Options, arguments: Arguments) -> BindPlugin:
    return GpuSharing(env, options, cdi_enabled=arguments.get(_CDI_ENABLED) == "true")


def _volume_binding(env: Environment, options: Options, arguments: Arguments) -> BindPlugin:
    timeout = arguments.get(_BIND_TIMEOUT)
    return VolumeBinding(env, float(timeout) if timeout is not None else options.volume_binding_timeout_seconds)


PLUGINS: Final = {
    "volumebinding": PluginEntry(_volume_binding, frozenset({_BIND_TIMEOUT})),
    "dynamicresources": PluginEntry(lambda env, _options, _arguments: DynamicResources(env.client)),
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
            if argument == _BIND_TIMEOUT and not (value.isascii() and value.isdigit() and int(value)):
                raise InvalidPluginSettings(f'plugin {name}: {argument} is "{value}", expected seconds, 1 or more')


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
