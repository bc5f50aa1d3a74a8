"""Cliques that start first: how many of their pods must be ready at the same moment, and how many are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bosket.api.core import Pod
from bosket.api.grove.naming import CLIQUE_LABEL


class InvalidParent(ValueError):
    """An argument that names no clique, or no number of pods; the message quotes it."""

    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}": expected the name of a PodClique and how many of its pods, such as web-0-router:2')


class Parent(NamedTuple):
    """A PodClique, by its full name, and how many of its pods must be ready."""

    clique: str
    minimum: int

    @classmethod
    def parse(cls, text: str) -> Parent:
        """`name:count`; raises `InvalidParent`."""
        name, _, count = (part.strip() for part in text.strip().partition(":"))
        if not name or not count.isascii() or not count.isdecimal() or int(count) == 0:
            raise InvalidParent(text)
        return cls(name, int(count))


def ready_counts(pods: Iterable[Pod]) -> Counter[str]:
    """How many pods of each PodClique are ready. Pods say whose they are by a label: names may begin alike."""
    return Counter(pod.metadata.labels.get(CLIQUE_LABEL, "") for pod in pods if _is_ready(pod))


def waiting_for(parents: Iterable[Parent], ready: Mapping[str, int]) -> list[Parent]:
    """Those that aren't there yet."""
    return [parent for parent in parents if ready.get(parent.clique, 0) < parent.minimum]


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
