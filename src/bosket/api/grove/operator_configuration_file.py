"""Grove's OperatorConfiguration file: read, completed and checked.

    apiVersion: operator.config.grove.io/v1alpha1
    kind: OperatorConfiguration
    topologyAwareScheduling: {enabled: true}
    scheduler:
      profiles: [{name: default-scheduler}, {name: kai-scheduler}]
      defaultProfileName: kai-scheduler

What is left out, null, "" or a 0 that means nothing falls back to its default. What is wrong raises
`InvalidOperatorConfiguration` with every field that is; a key that has no effect is reported and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.field_error import FieldError, duplicate, invalid_value, not_supported, required
from bosket.api.grove.operator_configuration import (
    DEFAULT_SCHEDULER,
    SUPPORTED_SCHEDULERS,
    LeaderElectionConfiguration,
    OperatorConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
)
from bosket.api.time import InvalidDuration, parse_duration

Report = Callable[[str], None]

API_VERSION: Final = "operator.config.grove.io/v1alpha1"
KIND: Final = "OperatorConfiguration"
#: Numbers of which 0 says as much as nothing.
_ZERO_IS_ABSENT: Final = frozenset({"qps", "burst", "port"})
_CHOICES: Final = {
    ("logLevel",): ("debug", "info", "error"),
    ("logFormat",): ("json", "text"),
    ("server", "webhooks", "certProvisionMode"): ("auto", "manual"),
}
_CONTROLLERS: Final = ("podCliqueSet", "podCliqueScalingGroup", "podClique", "podGang")
#: How msgspec says where something is wrong.
_WHERE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)


class InvalidOperatorConfiguration(ValueError):
    """A file that can't be used; says which fields are wrong, and how."""

    def __init__(self, errors: Iterable[FieldError | str]) -> None:
        super().__init__("; ".join(map(str, errors)))


def parse_operator_configuration(
    text: str, *, schedulers: Iterable[str] = SUPPORTED_SCHEDULERS, report: Report | None = None
) -> OperatorConfiguration:
    """The configuration in a YAML or JSON text; `schedulers` are the names that a profile may have."""
    return operator_configuration_from(parse_document(text), schedulers=schedulers, report=report)


def parse_document(text: str) -> Any:
    """What a YAML or JSON text says, whatever it is about."""
    try:
        return read_yaml(text)
    except UnreadableDocument as error:
        raise InvalidOperatorConfiguration([str(error)]) from error


def operator_configuration_from(
    document: Any, *, schedulers: Iterable[str] = SUPPORTED_SCHEDULERS, report: Report | None = None
) -> OperatorConfiguration:
    """The configuration in a decoded document."""
    if not isinstance(document, dict):
        raise InvalidOperatorConfiguration([f"the document must be a map, it is {type(document).__name__}"])
    _check_type(document)
    given = _without_absent({key: value for key, value in document.items() if key not in ("apiVersion", "kind")})
    for path in _unknown_keys(given, OperatorConfiguration):
        (report or _ignore)(f"{path} is no field of an {KIND} and has no effect")
    if errors := list(_wrong_choices(given)):
        raise InvalidOperatorConfiguration(errors)
    try:
        configuration = msgspec.convert(given, OperatorConfiguration)
    except msgspec.ValidationError as error:
        raise InvalidOperatorConfiguration([_readable(error)]) from error
    configuration = replace(configuration, scheduler=_with_default_scheduler(configuration.scheduler, given))
    if errors := list(_problems(configuration, tuple(schedulers))):
        raise InvalidOperatorConfiguration(errors)
    return configuration


def _ignore(_: str) -> None:
    """Nobody wants to hear what has no effect."""


def _check_type(document: dict[str, Any]) -> None:
    """A file without a type is taken for one; one of another type is a mistake."""
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key, expected) != expected:
            raise InvalidOperatorConfiguration([not_supported(key, document[key], [expected])])


def _without_absent(value: Any, key: str = "") -> Any:
    """The document without what says nothing. What a backend reads is its own."""
    if isinstance(value, dict) and key != "config":
        kept = {name: _without_absent(each, name) for name, each in value.items()}
        return {name: each for name, each in kept.items() if not _is_absent(name, each)}
    if isinstance(value, list):
        return [_without_absent(each) for each in value]
    return value


def _is_absent(key: str, value: Any) -> bool:
    if value is None or value == "":
        return True
    return key in _ZERO_IS_ABSENT and not isinstance(value, bool) and value == 0


def _unknown_keys(document: Any, kind: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """Keys that no field has, as far as the document has the form that it should have."""
    if not isinstance(document, dict):
        return
    fields = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    for key, value in document.items():
        here = f"{path}.{key}" if path else str(key)
        field_type = fields.get(key)
        if field_type is None:
            yield here
        elif isinstance(field_type, type) and issubclass(field_type, msgspec.Struct):
            yield from _unknown_keys(value, field_type, here)
        elif here == "scheduler.profiles" and isinstance(value, list):
            for index, profile in enumerate(value):
                yield from _unknown_keys(profile, SchedulerProfile, f"{here}[{index}]")


def _wrong_choices(document: dict[str, Any]) -> Iterator[FieldError]:
    for path, choices in _CHOICES.items():
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and value not in choices:
            yield not_supported(".".join(path), value, choices)


def _readable(error: msgspec.ValidationError) -> str:
    match = _WHERE.fullmatch(str(error))
    assert match is not None, "the expression matches any text"
    what = match["what"].replace("`", "")
    where = (match["path"] or "").removeprefix(".")
    return f"{where}: {what[0].lower()}{what[1:]}" if where else what


def _with_default_scheduler(scheduler: SchedulerConfiguration, given: dict[str, Any]) -> SchedulerConfiguration:
    """The Kubernetes scheduler is always there; without any profile it is the default, whatever was named."""
    if not given.get("scheduler", {}).get("profiles"):
        return SchedulerConfiguration()
    if DEFAULT_SCHEDULER in scheduler.names:
        return scheduler
    return replace(scheduler, profiles=(*scheduler.profiles, SchedulerProfile(name=DEFAULT_SCHEDULER)))


def _problems(configuration: OperatorConfiguration, schedulers: tuple[str, ...]) -> Iterator[FieldError]:
    yield from _scheduler_problems(configuration.scheduler, schedulers)
    if configuration.leaderElection.enabled:
        yield from _leader_election_problems(configuration.leaderElection)
    connection = configuration.clientConnection
    if connection.burst < 0:
        yield invalid_value("runtimeClientConnection.burst", connection.burst, "must be non-negative")
    for name in _CONTROLLERS:
        count = getattr(configuration.controllers, name).concurrentSyncs
        if count <= 0:
            yield invalid_value(f"controllers.{name}.concurrentSyncs", count, "must be greater than 0")
    server, debugging = configuration.server, configuration.debugging
    for field, port in (
        ("server.webhooks.port", server.webhooks.port),
        ("server.healthProbes.port", server.healthProbes.port),
        ("server.metrics.port", server.metrics.port),
        ("debugging.pprofBindPort", debugging.pprofBindPort),
    ):
        if not 0 <= port <= 65535:
            yield invalid_value(field, port, "must be between 0 and 65535, inclusive")


def _scheduler_problems(scheduler: SchedulerConfiguration, schedulers: tuple[str, ...]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, profile in enumerate(scheduler.profiles):
        field = f"scheduler.profiles[{index}].name"
        if not profile.name.strip():
            yield required(field, "scheduler profile name is required")
        elif profile.name not in schedulers:
            yield not_supported(field, profile.name, schedulers)
        elif profile.name in seen:
            yield duplicate(field, profile.name)
        seen.add(profile.name)
    if scheduler.defaultProfileName not in seen:
        yield invalid_value(
            "scheduler.defaultProfileName",
            scheduler.defaultProfileName,
            "default profile must be one of the configured profiles",
        )


def _leader_election_problems(election: LeaderElectionConfiguration) -> Iterator[FieldError]:
    seconds: dict[str, float] = {}
    for name in ("leaseDuration", "renewDeadline", "retryPeriod"):
        text = getattr(election, name)
        try:
            seconds[name] = parse_duration(text)
        except InvalidDuration as error:
            yield invalid_value(f"leaderElection.{name}", text, str(error))
            continue
        if seconds[name] <= 0:
            yield invalid_value(f"leaderElection.{name}", text, "must be greater than 0")
    if seconds.keys() >= {"renewDeadline", "retryPeriod"} and seconds["renewDeadline"] <= seconds["retryPeriod"]:
        yield invalid_value("leaderElection.renewDeadline", election.renewDeadline, "must be greater than retryPeriod")
    if seconds.keys() >= {"leaseDuration", "renewDeadline"} and seconds["leaseDuration"] <= seconds["renewDeadline"]:
        yield invalid_value(
            "leaderElection.leaseDuration", election.leaseDuration, "must be greater than renewDeadline"
        )
