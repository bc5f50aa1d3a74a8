"""A kind of object: its group, version, names, scope, path and Struct.

`Resource` is the one way to say which kind is meant. `bosket.api.table` lists all that have a Struct; kinds that are
known only from discovery are `Resource[dict]`s made at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind, in one version. `struct` is the type its objects decode to; `dict` where there is no Struct."""

    group: str
    version: str
    kind: str
    plural: str
    struct: type[T]
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def group_resource(self) -> str:
        """As error messages name it: `pods`, `queues.scheduling.run.ai`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of one of its subresources."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


AnyResource = Resource[Any]
