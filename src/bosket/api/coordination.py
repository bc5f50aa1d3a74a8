"""coordination.k8s.io/v1: leases, by which leaders are elected and nodes show that they live."""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire


class LeaseSpec(Wire):
    """Who holds a lease, since when and for how long."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None
    strategy: str | None = None
    preferredHolder: str | None = None


class Lease(KubeObject):
    """A claim to a role for a time."""

    spec: LeaseSpec = LeaseSpec()
