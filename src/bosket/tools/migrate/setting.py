"""What happens to Config, shards and the schedulers' configuration files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from bosket.api.core import ConfigMap
from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.kai import CONFIG_NAME, Config, SchedulingShard
from bosket.api.kai.operand import Image
from bosket.api.table import resource_of
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.file import configuration_from
from bosket.services.operator.image import KAI_IMAGES
from bosket.services.operator.shard import not_understood
from bosket.services.operator.without_effect import unused_fields
from bosket.tools.doctor.checks.definition import own_schema
from bosket.tools.doctor.checks.shard_setting import known_plugins
from bosket.tools.doctor.finding import named, some
from bosket.tools.doctor.installation import Installation
from bosket.tools.migrate.item import Item, Outlook

# Flags of KAI's scheduler that Bosket's lacks; those that it has are in `bosket.services.operator.shard`.
#: Set by the operator from Config and shard; whoever gives them by hand is overruled.
GENERATED: Final = frozenset(
    {
        "leader-elect",
        "listen-address",
        "log-json",
        "metrics-namespace",
        "namespace",
        "nodepool-label-key",
        "partition-label-value",
        "queue-label-key",
        "resource-reservation-app-label",
        "scheduler-conf",
        "scheduler-name",
    }
)
#: Have no effect, and why.
WITHOUT_EFFECT: Final = {
    "pyroscope-block-profiler-rate": "profiles are of CPU and memory; Python has none of blocking",
    "pyroscope-mutex-profiler-rate": "profiles are of CPU and memory; Python has none of mutexes",
    "num-of-status-recording-workers": "status is written by as many requests as there are changes",
    "update-pod-eviction-condition": "pods that are evicted always have the condition DisruptionTarget",
    "v": "logs are set by --log-level",
    "version": "the version is always logged",
}
#: Have a meaning in KAI that Bosket's scheduler doesn't offer.
MISSING: Final = {
    "mig-worker-node-label-key": "nodes with MIG are found by their resources",
}


_FILE: Final = "config.yaml"


def of_settings(installation: Installation) -> Iterator[Item]:
    """Config, shards, and files of the schedulers."""
    yield from _of_unknown_fields(installation)
    for config in installation.bundle.of(Config):
        if config.metadata.name == CONFIG_NAME:
            yield from _of_config(config)
        else:
            yield Item(Outlook.KEEP, named(config), "", f"has no effect, now or then: only {CONFIG_NAME} counts")
    for shard in installation.bundle.of(SchedulingShard):
        yield from _of_shard(shard)
    for file in installation.bundle.of(ConfigMap):
        if file.metadata.namespace == installation.namespace and _FILE in file.data:
            yield from _of_file(file)


def _of_unknown_fields(installation: Installation) -> Iterator[Item]:
    """Of a KAI that is newer than what Bosket knows of it."""
    for kind, documents in installation.bundle.settings.items():
        schema = own_schema(resource_of(kind))["properties"]["spec"]
        for document in documents:
            name = f"{kind.__name__} {(document.get('metadata') or {}).get('name', '')}"
            for field in unknown_fields(document.get("spec"), schema, "spec"):
                yield Item(
                    Outlook.ACTION,
                    name,
                    field,
                    "Bosket doesn't know this field: the definition that it installs drops it",
                    "find out what depends on it, and whether Bosket has another way",
                    f"kubectl get {kind.__name__.lower()}.kai.scheduler {name.partition(' ')[2]} -o yaml",
                )


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths in a document for which a schema has no place; what is below them isn't named."""
    if isinstance(value, list):
        for each in value:
            yield from unknown_fields(each, schema.get("items", {}), f"{path}[]")
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    known, others = schema.get("properties"), schema.get("additionalProperties")
    for key, inner in value.items():
        if known is not None and key in known:
            yield from unknown_fields(inner, known[key], f"{path}.{key}")
        elif isinstance(others, dict):
            yield from unknown_fields(inner, others, f"{path}.{key}")
        elif known is not None:
            yield f"{path}.{key}"


def _of_config(config: Config) -> Iterator[Item]:
    name, found = named(config), False
    kai: list[tuple[str, Image]] = []
    foreign: list[tuple[str, Image]] = []
    for field, image in images(config.spec):
        (kai if image.name is None or image.name in KAI_IMAGES else foreign).append((field, image))
    if kai:
        found = True
        yield Item(
            Outlook.CHANGES,
            name,
            kai[0][0],
            f"{len(kai)} images of KAI's services are named; Bosket has one image for all of them, and takes that",
        )
    for field, image in foreign:
        found = True
        yield Item(
            Outlook.ACTION,
            name,
            field,
            f'the image "{image.name}" is none of KAI\'s, so Bosket would run it as its own',
            "remove the image from the Config, or see to it that it has the program bosket",
            f"kubectl edit config.kai.scheduler {CONFIG_NAME}",
        )
    for field, sentence in unused_fields(config.spec):
        found = True
        yield Item(Outlook.CHANGES, name, field, sentence)
    if not found:
        yield Item(Outlook.KEEP, name, "", "is followed as it is")


def images(section: msgspec.Struct, path: str = "spec") -> Iterator[tuple[str, Image]]:
    """Every image that is named anywhere in a section, with its field."""
    for field in msgspec.structs.fields(section):
        value, where = getattr(section, field.name), f"{path}.{field.encode_name}"
        if isinstance(value, Image):
            yield where, value
        elif isinstance(value, msgspec.Struct):
            yield from images(value, where)


def _of_shard(shard: SchedulingShard) -> Iterator[Item]:
    name, spec = named(shard), shard.spec
    items = [*_of_arguments(shard)]
    edit = f"kubectl edit schedulingshard {shard.metadata.name}"
    for plugin, config in spec.plugins.items():
        if plugin in known_plugins() or config.enabled is False:
            continue
        items.append(
            Item(
                Outlook.ACTION,
                name,
                f"spec.plugins.{plugin}",
                f"Bosket has no plugin \"{plugin}\": one that was compiled into KAI's scheduler can't be used",
                "write it anew in Python (examples/plugin), install it into the image, or remove it here",
                edit,
            )
        )
    for field, actions in (("actions", spec.actions), ("queueDepthPerAction", spec.queueDepthPerAction)):
        items += [
            Item(
                Outlook.ACTION,
                name,
                f"spec.{field}.{action}",
                f'Bosket has no action "{action}"',
                "remove it",
                edit,
            )
            for action in actions
            if action not in ACTIONS
        ]
    items += [Item(Outlook.CHANGES, name, field, sentence) for field, sentence in unused_fields(spec)]
    if spec.scenarioSearchBudgets is not None:
        sentence = "budgets of searches are counted in steps, not in seconds: a second is 250 tasks that are moved"
        items.append(Item(Outlook.CHANGES, name, "spec.scenarioSearchBudgets", sentence))
    usage = spec.usageDBConfig.usageParams if spec.usageDBConfig is not None else None
    if usage is not None and usage.windowType in ("tumbling", "cron"):
        sentence = f"windows of type {usage.windowType} work, which they don't in KAI: past use begins to count"
        items.append(Item(Outlook.CHANGES, name, "spec.usageDBConfig.usageParams.windowType", sentence))
    yield from items or [Item(Outlook.KEEP, name, "", "gets a scheduler of Bosket's with the same settings")]


def _of_arguments(shard: SchedulingShard) -> Iterator[Item]:
    name = named(shard)
    for flag in not_understood(shard):
        field = f"spec.args.{flag}"
        if flag in GENERATED:
            yield Item(Outlook.CHANGES, name, field, "has no effect: Config and shard say it in fields of their own")
        elif flag in WITHOUT_EFFECT:
            yield Item(Outlook.CHANGES, name, field, f"has no effect: {WITHOUT_EFFECT[flag]}")
        elif flag in MISSING:
            yield Item(Outlook.CHANGES, name, field, f"isn't there in Bosket: {MISSING[flag]}")
        else:
            yield Item(
                Outlook.ACTION,
                name,
                field,
                "no scheduler has such a flag: KAI's operator leaves it out silently, Bosket's with a word",
                "correct the name, or remove it",
                f"kubectl edit schedulingshard {shard.metadata.name}",
            )


def _of_file(file: ConfigMap) -> Iterator[Item]:
    """What a scheduler runs with now: the operator writes it from the shard, people may have written another."""

    name, field = named(file), f"data[{_FILE}]"
    problems: list[str] = []
    try:
        configuration = configuration_from(read_yaml(file.data[_FILE]) or {}, problems.append)
    except (UnreadableDocument, ConfigurationError) as error:
        message = " ".join(str(error).split())
        yield Item(
            Outlook.ACTION,
            name,
            field,
            f"Bosket's scheduler couldn't read it: {message}",
            "correct it, or delete the map",
        )
        return
    unknown = [choice.name for choice in configuration.plugins if choice.name not in known_plugins()]
    unknown += [action for action in configuration.actions if action not in ACTIONS]
    if unknown:
        sentence = f"names plugins or actions that Bosket doesn't have: {some(unknown)}"
        yield Item(Outlook.CHANGES, name, field, f"{sentence}; the operator writes it anew from the shard")
    elif problems:
        yield Item(Outlook.CHANGES, name, field, f"{some(problems)}; the operator writes it anew from the shard")
    else:
        yield Item(Outlook.KEEP, name, field, "is understood as it is; the operator writes it anew from the shard")
