"""How core/v1 objects point at other objects."""

from __future__ import annotations

from bosket.api.object import Wire


class ObjectReference(Wire):
    """Points at any object, or with `fieldPath` at a part of one."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    apiVersion: str = ""
    resourceVersion: str = ""
    fieldPath: str = ""


class LocalObjectReference(Wire):
    """Points at an object of a kind known from the context, in the same namespace."""

    name: str = ""


class TypedLocalObjectReference(Wire):
    """Points at an object of any kind in the same namespace."""

    kind: str
    name: str
    apiGroup: str | None = None


class TypedObjectReference(Wire):
    """Points at an object of any kind, where `namespace` is given in another namespace."""

    kind: str
    name: str
    apiGroup: str | None = None
    namespace: str | None = None


class SecretReference(Wire):
    """Points at a Secret in any namespace."""

    name: str = ""
    namespace: str = ""
