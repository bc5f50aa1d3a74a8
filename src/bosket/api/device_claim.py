"""Properties of a pod's resource claims that need no device: names, and the GPUs that they request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bosket.api.core import Pod
from bosket.api.keys import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from bosket.api.resource_k8s import ResourceClaim


def claim_name(pod: Pod, name: str) -> str | None:
    """The ResourceClaim that the pod's spec calls `name`."""
    for each in pod.spec.resourceClaims:
        if each.name == name:
            if each.resourceClaimName is not None:
                return each.resourceClaimName
            made = (status for status in pod.status.resourceClaimStatuses if status.name == name)
            return next((status.resourceClaimName for status in made), None)
    return None


def is_gpu(name: str) -> bool:
    """Whether a device class, or a driver, is for GPUs: its name says so."""
    return "gpu" in name.lower()


def gpus_by_class(claim: ResourceClaim) -> Counter[str]:
    """How many GPUs a claim counts as. Alternatives count none: which of them it gets is not known beforehand."""
    counts: Counter[str] = Counter()
    for name, count in _gpus(claim):
        counts[name] += count
    return counts


def claimed_gpus(claim: ResourceClaim) -> int:
    """The same, of all classes together."""
    return sum([count for _, count in _gpus(claim)])


def _gpus(claim: ResourceClaim) -> Iterator[tuple[str, int]]:
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true":
        return  # the pod's own request counts
    for request in claim.spec.devices.requests:
        exactly = request.exactly
        if exactly is not None and is_gpu(exactly.deviceClassName):
            if exactly.allocationMode in ("", "ExactCount"):
                yield exactly.deviceClassName, max(1, exactly.count)
            elif exactly.allocationMode == "All":
                yield exactly.deviceClassName, 1
