"""metav1: what is sent beside objects, or in their place."""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire


class Preconditions(Wire):
    """What must be true of an object for a deletion to happen."""

    uid: str | None = None
    resourceVersion: str | None = None


class GroupVersionKind(Wire):
    """A kind, in one version."""

    group: str
    version: str
    kind: str


class GroupVersionResource(Wire):
    """A resource, in one version."""

    group: str
    version: str
    resource: str


class DeleteOptions(Wire):
    """How an object should be deleted; the body of a DELETE."""

    apiVersion: str = ""
    kind: str = ""
    gracePeriodSeconds: int | None = None
    preconditions: Preconditions | None = None
    orphanDependents: bool | None = None
    propagationPolicy: str | None = None
    dryRun: tuple[str, ...] = ()
    ignoreStoreReadErrorWithClusterBreakingPotential: bool | None = None


class PartialObjectMetadata(KubeObject):
    """An object of any kind, of which nothing but the metadata is sent."""
