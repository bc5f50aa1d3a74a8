"""`Bundle`: everything that could be read of a cluster, read once, and what couldn't be read.

A check asks `of(Kind)` for objects and may rely on `knows(Kind)`: nothing of a kind that is known means that there is
none, nothing of one that isn't means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar, cast

from bosket.api.object import KubeObject

K = TypeVar("K", bound=KubeObject)


class Obstacle(StrEnum):
    """Why a kind couldn't be read."""

    NOT_SERVED = "the cluster doesn't serve it"
    FORBIDDEN = "you may not list it"
    FAILED = "the server failed"


@dataclass(frozen=True, slots=True)
class Unread:
    """A kind that couldn't be read."""

    obstacle: Obstacle
    message: str = ""


@dataclass(frozen=True, slots=True)
class AccessNeed:
    """One thing that a service must be allowed to do."""

    service_account: str
    verb: str
    group: str
    resource: str  #: with its subresource: `pods/status`
    namespace: str = ""  #: empty: everywhere
    name: str = ""  #: the only object that is meant; empty: any

    @property
    def subresource(self) -> str:
        return self.resource.partition("/")[2]

    @property
    def group_resource(self) -> str:
        """As kubectl names it, without the subresource."""
        plural = self.resource.partition("/")[0]
        return f"{plural}.{self.group}" if self.group else plural

    def __str__(self) -> str:
        what = f"{self.group_resource}/{self.subresource}" if self.subresource else self.group_resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {what}{named}" + (f" in namespace {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class Refused:
    """A service may not do what it must; or nobody would say whether it may."""

    need: AccessNeed
    reason: str = ""


@dataclass(frozen=True)
class Bundle:
    """A cluster at one moment, as far as it could be read."""

    objects: Mapping[type[KubeObject], tuple[KubeObject, ...]] = field(default_factory=dict)
    unread: Mapping[type[KubeObject], Unread] = field(default_factory=dict)
    #: Which objects are left out because they don't fit their kind, and why.
    malformed: tuple[str, ...] = ()
    #: Kinds of other projects, by group and kind, as they are on the wire.
    foreign: Mapping[tuple[str, str], tuple[dict[str, Any], ...]] = field(default_factory=dict)
    #: Config and shards as they are on the wire, with fields that no Struct knows.
    settings: Mapping[type[KubeObject], tuple[dict[str, Any], ...]] = field(default_factory=dict)
    #: Of the serving certificate, by the Secret's namespace and name; nothing else of Secrets is kept.
    certificates: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    #: What services lack; None if nobody was asked.
    refused: tuple[Refused, ...] | None = None
    #: As `/version` says it: `v1.37.0`; empty if unknown.
    server_version: str = ""
    #: Epoch seconds; None if that is unknown, as of a dump.
    now: float | None = None
    #: Whether Bosket's services run in the API server's process, where no object tells of them.
    runs_in_process: bool = False

    def of(self, kind: type[K]) -> tuple[K, ...]:
        """The objects of a kind that there are, in the order of their names."""
        return cast(tuple[K, ...], self.objects.get(kind, ()))

    def knows(self, *kinds: type[KubeObject]) -> bool:
        """Whether all of these were read."""
        return all(kind in self.objects for kind in kinds)


def bundle_of(objects: Iterable[KubeObject], kinds: Iterable[type[KubeObject]] = (), **fields: Any) -> Bundle:
    """A bundle of these objects, in which all of `kinds` are known, and those that occur."""
    found: dict[type[KubeObject], list[KubeObject]] = {kind: [] for kind in kinds}
    for obj in objects:
        found.setdefault(type(obj), []).append(obj)
    ordered = {kind: tuple(sorted(each, key=lambda obj: obj.key)) for kind, each in found.items()}
    return Bundle(objects=ordered, **fields)
