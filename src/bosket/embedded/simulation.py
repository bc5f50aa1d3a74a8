"""How a simulated pod behaves, as its annotations say.

The kubelet reads them when a pod is bound. The stages that kwok gets on a real control plane read the same
annotations, so that one manifest behaves alike on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bosket.api.keys import EXIT_CODE_ANNOTATION, RUN_DURATION_ANNOTATION, START_DELAY_ANNOTATION
from bosket.api.time import parse_duration

#: A Go duration between the request to stop and the end.
STOP_DELAY_ANNOTATION: Final = "bosket.dev/stop-delay"


class InvalidBehaviour(ValueError):
    """An annotation that can't be read; the message names it, its value and what would be right."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a pod's containers do."""

    #: How long they run before they exit by themselves; None: until they are stopped.
    run_seconds: float | None = None
    exit_code: int = 0
    #: From the pod's admission to its containers' start.
    start_delay_seconds: float = 0.0
    #: From the request to stop to the exit; never longer than the pod's grace period.
    stop_delay_seconds: float = 0.0

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Behaviour:
        """Raises `InvalidBehaviour` for the first annotation that has no meaning."""
        return cls(
            run_seconds=_seconds(annotations, RUN_DURATION_ANNOTATION)
            if RUN_DURATION_ANNOTATION in annotations
            else None,
            exit_code=_exit_code(annotations),
            start_delay_seconds=_seconds(annotations, START_DELAY_ANNOTATION),
            stop_delay_seconds=_seconds(annotations, STOP_DELAY_ANNOTATION),
        )


def _seconds(annotations: Mapping[str, str], name: str) -> float:
    text = annotations.get(name, "0s")
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InvalidBehaviour(f'annotation {name}: "{text}" is not a duration such as "1m30s"') from error
    if seconds < 0:
        raise InvalidBehaviour(f'annotation {name}: "{text}" is negative')
    return seconds


def _exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(EXIT_CODE_ANNOTATION, "0")
    if not text.isdecimal() or int(text) > 255:
        raise InvalidBehaviour(f'annotation {EXIT_CODE_ANNOTATION}: "{text}" is not a number from 0 to 255')
    return int(text)
