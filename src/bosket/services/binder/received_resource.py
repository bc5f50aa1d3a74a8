"""ReceivedResource: annotates a pod with what it received, for KAI's components and the NUMA exporter."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bosket.api import keys
from bosket.services.binder.plugin import Attempt, BindPlugin


class ReceivedResource(BindPlugin):
    """Notes the kind of resource, and the NUMA zones that the scheduler expects."""

    name = "receivedresource"
    # MIG instances are extended resources: the kubelet hands them out, and there is nothing to prepare.
    resource_types: ClassVar[frozenset[str]] = frozenset({"", "Regular", "MigInstance"})

    async def pre_bind(self, attempt: Attempt) -> None:
        spec = attempt.request.spec
        if spec.receivedResourceType:
            attempt.annotations[keys.RECEIVED_RESOURCE_TYPE_ANNOTATION] = spec.receivedResourceType
        if spec.predictedNUMAZones:
            attempt.annotations[keys.NUMA_PREDICTED_ANNOTATION] = msgspec.json.encode(spec.predictedNUMAZones).decode()
