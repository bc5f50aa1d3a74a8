"""Values: the chart's defaults, what an administrator says on top of them, and whether that makes sense.

Files and `--set` are merged as Helm merges them. The schema is made from the defaults, so that every value there is
known, and a misspelt one is refused; parts that are passed on as they are have the schemas of the objects they go to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml

from bosket.api.core import ResourceRequirements
from bosket.api.crd_schema import schema_of
from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.grove.operator_configuration import ControllersConfiguration, SchedulerConfiguration
from bosket.api.kai.operand import Image, VPASpec
from bosket.api.kai.shard import ActionConfig, PluginConfig, ScenarioSearchBudgets

Values = dict[str, Any]
Schema = dict[str, Any]


class InvalidValues(ValueError):
    """Values that the chart doesn't have, or that aren't of the right kind; the message names them."""


def values_text() -> str:
    """The chart's values.yaml."""
    return files(__package__).joinpath("values.yaml").read_text()


@cache
def default_values() -> Values:
    """What holds where nobody says otherwise. To be merged with, never to be changed."""
    found: Values = yaml.safe_load(values_text())
    return found


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> Values:
    """What several files and settings say together: maps are merged, everything else is replaced."""
    result = dict(below)
    for name, value in above.items():
        known = result.get(name)
        result[name] = overlaid(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def completed(values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Values:
    """With the defaults of what isn't said; null takes a default away."""
    result = dict(default_values() if defaults is None else defaults)
    for name, value in values.items():
        known = result.get(name)
        if value is None:
            result.pop(name, None)
        else:
            result[name] = completed(value, known) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def read_values(text: str | bytes, source: str) -> Values:
    """A file of values; raises `InvalidValues`."""
    try:
        # Dates, bytes and the like become what JSON has.
        found = msgspec.json.decode(msgspec.json.encode(read_yaml(text)))
    except (UnreadableDocument, msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidValues(f"{source}: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidValues(f"{source}: is a {type(found).__name__}, not a map of values")
    return found


def parse_set(text: str) -> Values:
    """`a.b=c`, as Helm's --set: numbers, booleans and null are what they look like, a dot in a name is `\\.`."""
    path, equals, value = text.partition("=")
    names = [each.replace("\\.", ".") for each in re.split(r"(?<!\\)\.", path)]
    if not equals or not all(names):
        raise InvalidValues(f"--set {text}: expected a.b=c")
    if "[" in path or "," in value or value.startswith("{"):
        raise InvalidValues(f"--set {text}: lists and several values at once can only be given in a file (--values)")
    found: Any = _typed(value)
    for name in reversed(names):
        found = {name: found}
    result: Values = found
    return result


def _typed(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text == "null":
        return None
    # As in Helm: a number that begins with 0 is a text, such as a commit's.
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]*", text) else text


def check(values: Values) -> None:
    """Raises `InvalidValues`, which names every value that is wrong."""
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(values_schema())
    wrong = [(".".join(map(str, each.instance_path)), each.message) for each in validator.iter_errors(values)]
    if wrong:
        raise InvalidValues("; ".join(f"values: {path}: {message}" if path else message for path, message in wrong))


# --- the schema

_TEXT: Final = {"type": "string"}
_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_NAMED: Final = {"type": "object", "additionalProperties": _TEXT}


def _enum(*choices: str) -> Schema:
    return {"type": "string", "enum": list(choices)}


def _by_name(struct: type) -> Schema:
    return {"type": "object", "additionalProperties": _strict(schema_of(struct))}


def _strict(schema: Schema) -> Schema:
    """Without fields that nobody knows."""
    return {**schema, "additionalProperties": False}


#: By the end of a value's path: what its default doesn't tell.
_KNOWN: Final[Mapping[str, Schema]] = {
    "affinity": {"type": "object"},
    "args": _NAMED,
    "externalPrometheusUrl": _TEXT,
    "grove.config.authorizer.exemptServiceAccountUserNames": {"type": "array", "items": _TEXT},
    "grove.config.controllers": _strict(schema_of(ControllersConfiguration)),
    "grove.config.scheduler": _strict(schema_of(SchedulerConfiguration)),
    "grove.config.server.webhooks.certProvisionMode": _enum("auto", "manual"),
    "grove.config.server.webhooks.port": _PORT,
    "grove.priorityClass.value": {"type": "integer"},
    "grove.replicaCount": {"type": "integer", "minimum": 0},
    "grove.webhookAnnotations": _NAMED,
    "global.imagePullPolicy": _enum("Always", "IfNotPresent", "Never"),
    "global.imagePullSecrets": {
        "type": "array",
        "items": {"type": "object", "properties": {"name": _TEXT}, "required": ["name"], "additionalProperties": False},
    },
    "global.resourceReservation.namespaceLabels": _NAMED,
    "global.securityContext": {"type": "object"},
    "global.podSecurityContext": {"type": "object"},
    "global.vpa": _strict(schema_of(VPASpec)),
    "operator.image.pullPolicy": _enum("", "Always", "IfNotPresent", "Never"),
    "operator.logLevel": _enum("debug", "info", "warning", "error"),
    "operator.replicaCount": {"type": "integer", "minimum": 0},
    "podDisruptionBudget.maxUnavailable": {"type": "integer", "minimum": 0},
    "labels": _NAMED,
    "namespaceLabelSelector": _NAMED,
    "podLabelSelector": _NAMED,
    "nodeSelector": _NAMED,
    "resources": schema_of(ResourceRequirements),
    "binder.resourceReservationPodResources": schema_of(ResourceRequirements),
    "scheduler.placementStrategy": _enum("binpack", "spread"),
    "scheduler.gpuPlacementStrategy": _enum("", "binpack", "spread", "fragmentation"),
    "scheduler.actions": _by_name(ActionConfig),
    "scheduler.plugins": _by_name(PluginConfig),
    "binder.plugins": _by_name(PluginConfig),
    "scheduler.scenarioSearchBudgets": _strict(schema_of(ScenarioSearchBudgets)),
    "tolerations": {"type": "array", "items": {"type": "object"}},
    **{
        f"{section}.image": _strict(schema_of(Image))
        for section in (
            *("podgrouper", "podgroupcontroller", "queuecontroller", "binder", "scheduler", "admission"),
            *("nodescaleadjuster", "numaPlacementExporter"),
        )
    },
    "binder.resourceReservationImage": _strict(schema_of(Image)),
    "nodescaleadjuster.scalingPodImage": _strict(schema_of(Image)),
}


@cache
def values_schema() -> Schema:
    """The chart's values.schema.json."""
    own = _schema("", default_values())
    return {"$schema": "http://json-schema.org/draft-07/schema#", **own}


def _known(path: str) -> Schema | None:
    return next((schema for end, schema in _KNOWN.items() if path == end or path.endswith(f".{end}")), None)


def _is_passed_on(path: str, default: Any) -> bool:
    return isinstance(default, dict | list) and _known(path) is not None and path != "global.vpa"


def _schema(path: str, default: Any) -> Schema:
    known = _known(path)
    if known is not None:
        return known
    if path.endswith("Port"):
        return _PORT
    match default:
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return _TEXT
        case dict() if default:
            inside = {name: _schema(f"{path}.{name}".lstrip("."), each) for name, each in default.items()}
            # What is passed on as a whole may be taken away (null); templates count on the rest.
            needed = [name for name, each in default.items() if not _is_passed_on(f"{path}.{name}".lstrip("."), each)]
            return {"type": "object", "properties": inside, "required": needed, "additionalProperties": False}
    raise TypeError(f"values.yaml: {path}: its default says too little about it, and so does the table of schemas")
