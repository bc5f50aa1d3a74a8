"""Backfill: large gangs that wait for long get a reservation, and smaller jobs pass only if they end in time.

Not part of the default configuration. Arguments: `largeGPUs`, from how many GPUs on a gang is large (default 32);
`after`, how long it has waited before nodes are held for it (a duration, default 24h); `reservations`, how many gangs
have a reservation at the same time (default 4); `preemptible`: with `evict`, preemptible jobs pass whatever their run
time, and are evicted when they still hold a gang's nodes at its start (default `wait`: they are treated as others).

A reservation is made of run times: those of the jobs that run say when nodes become free, that of a job which wants to
pass says whether it ends before the gang starts. A job without a known run time passes only where it isn't in the way.
Priority inside a queue, quota and fair share go before a reservation.

forecast.py  when nodes will have room
planning.py  the earliest time at which a gang has room as a whole, also in one rack or zone
held.py      who gets a reservation, and whom its nodes are kept from
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from bosket.api.time import InvalidDuration, parse_long_duration
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins.backfill.held import HeldForLargeGangs, Terms

ARGUMENTS: Final = ("largeGPUs", "after", "reservations", "preemptible")


class Backfill:
    """Registers what is held in the session."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self._terms = Terms(
            least_gpus=_number(arguments, "largeGPUs", "32"),
            wait_seconds=_seconds(arguments, "after", "24h"),
            evicts=_choice(arguments, "preemptible", ("wait", "evict")) == "evict",
            most=round(_number(arguments, "reservations", "4")),
        )

    def open(self, session: Session) -> None:
        held = HeldForLargeGangs(session, self._terms)
        session.extensions.reservers.add(held)
        session.extensions.placement_listeners.add(held)


def _number(arguments: Mapping[str, str], name: str, default: str) -> float:
    text = arguments.get(name) or default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 1):
        raise ConfigurationError(f"plugin backfill: {name} is {text!r}, it must be a number of 1 or more")
    return value


def _choice(arguments: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise ConfigurationError(f"plugin backfill: {name} is {value!r}, it must be one of {', '.join(choices)}")
    return value


def _seconds(arguments: Mapping[str, str], name: str, default: str) -> float:
    text = arguments.get(name) or default
    try:
        return parse_long_duration(text)
    except InvalidDuration as error:
        raise ConfigurationError(f"plugin backfill: {name}: {error}") from error
