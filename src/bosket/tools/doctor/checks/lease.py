"""Leases by which services elect who works: held, and renewed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.coordination import Lease
from bosket.api.time import time_or_zero
from bosket.tools.doctor.checks.deployment import kai_deployments
from bosket.tools.doctor.finding import Finding, Severity, named
from bosket.tools.doctor.installation import Installation

#: As long after its end a lease counts as forgotten: clocks differ, and successors need a moment.
_LENIENCY_SECONDS: Final = 30.0
_DEFAULT_SECONDS: Final = 15
#: What the services of KAI call their leases; the schedulers' has the scheduler's name, for both.
KAI_LEASES: Final = {
    "41fce092.run.ai": "operator",
    "ojptxr84.kai.scheduler": "admission",
    "2ad35f9c.kai.scheduler": "binder",
    "54dff599.kai.scheduler": "pod grouper",
    "o1x22tjj.kai.scheduler": "pod group controller",
    "ov3xj497.kai.scheduler": "queue controller",
    "7n7h49uc.kai.scheduler": "node scale adjuster",
}


def check(installation: Installation) -> Iterator[Finding]:
    """Leases that nobody holds, or that their holder no longer renews."""
    bundle, now = installation.bundle, installation.bundle.now
    if now is None:
        return  # whether a lease is fresh is known only where the time is
    kai_runs = any(each.spec.replicas != 0 for each in kai_deployments(installation))
    for lease in bundle.of(Lease):
        if lease.metadata.namespace != installation.namespace:
            continue
        spec, name = lease.spec, lease.metadata.name
        if name in KAI_LEASES and not kai_runs:
            yield Finding(
                "lease-left-over",
                Severity.INFO,
                named(lease),
                "",
                f"KAI's {KAI_LEASES[name]} competed for it, and doesn't run any more",
                "delete it",
                f"kubectl delete lease -n {installation.namespace} {name}",
            )
            continue
        if not spec.holderIdentity:
            yield Finding(
                "lease-not-held",
                Severity.WARNING,
                named(lease),
                "spec.holderIdentity",
                f"nobody holds the lease of {name}: the last who did gave it back, and no other is running",
                "start the service again, or delete the lease if it is no longer used",
                f"kubectl get pods -n {installation.namespace}",
            )
            continue
        age = now - time_or_zero(spec.renewTime or spec.acquireTime)
        seconds = _DEFAULT_SECONDS if spec.leaseDurationSeconds is None else spec.leaseDurationSeconds
        if age > seconds + _LENIENCY_SECONDS:
            yield Finding(
                "lease-expired",
                Severity.ERROR,
                named(lease),
                "spec.renewTime",
                f"{spec.holderIdentity} holds the lease of {name} and hasn't renewed it for {age:.0f} s (it is good "
                f"for {seconds}): nobody does this work",
                "see whether the service runs, and reaches the API server",
                f"kubectl get pods -n {installation.namespace}",
            )
