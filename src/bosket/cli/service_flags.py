"""What the flags of all services have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bosket.cli.output import UsageError

_METRIC_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def are_given(flags: object, service: str, running: Iterable[str]) -> bool:
    """Whether any of a service's flags differs from its default; raises `UsageError` when that service doesn't run."""
    given = [name for name, value in vars(type(flags)()).items() if getattr(flags, name) != value]
    if given and service not in running:
        raise UsageError(f"--{given[0].replace('_', '-')}: {service} is not among the services that run")
    return bool(given)


def check_metric_name(name: str) -> None:
    """Raises `UsageError` for what can't be part of a metric's name, or the name of one of its labels."""
    if not _METRIC_NAME.fullmatch(name):
        raise UsageError(f'"{name}" can\'t be part of a metric: letters, digits and _ only, no digit first')


def pairs(flag: str, text: str) -> dict[str, str]:
    """`key=value,key2=value2` as a mapping; raises `UsageError`, which names the flag."""
    found = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f'{flag} "{text}": expected key=value,key2=value2')
        found[key.strip()] = value.strip()
    return found
