"""Flags of `bosket run` for an operand's container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def flags(**values: Any) -> list[str]:
    """`--name=value` for each that isn't None; switches as --name and --no-name, maps as key=value pairs."""
    return [_flag(name.replace("_", "-"), value) for name, value in values.items() if value is not None]


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, Mapping):
        return f"--{name}={','.join(f'{key}={each}' for key, each in value.items())}"
    return f"--{name}={value}"


def as_json(struct: Any) -> str | None:
    """For flags that take a part of an object; None for what is left out, or says nothing."""
    text = "" if struct is None else msgspec.json.encode(struct, order="deterministic").decode()
    return text if text not in ("", "{}") else None
