"""Flags whose value is a list of keys with values."""

from __future__ import annotations

from bosket.cli.output import UsageError


def pairs(flag: str, text: str) -> dict[str, str]:
    """`key=value,key2=value2` as a mapping; raises `UsageError`, which names the flag."""
    found = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f'{flag} "{text}": expected key=value,key2=value2')
        found[key.strip()] = value.strip()
    return found
