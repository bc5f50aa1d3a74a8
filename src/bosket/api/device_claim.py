"""What can be said of a pod's resource claims without knowing any device: names, and the GPUs they ask for."""

from __future__ import annotations

from collections import Counter

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
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true":
        return counts  # the pod's own request counts
    for request in claim.spec.devices.requests:
        if request.exactly is not None and is_gpu(request.exactly.deviceClassName):
            if request.exactly.allocationMode in ("", "ExactCount"):
                counts[request.exactly.deviceClassName] += max(1, request.exactly.count)
            elif request.exactly.allocationMode == "All":
                counts[request.exactly.deviceClassName] += 1
    return counts
