"""The headless Service by which the pods of a set's replica find each other."""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import Service, ServiceSpec
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import SET_REPLICA_LABEL, managed_labels, replica_name
from bosket.grove.render.child import child_meta, component_labels


def headless_service(owner: PodCliqueSet, replica: int, existing: Service | None) -> Service:
    """The service of one replica."""
    name = replica_name(owner.metadata.name, replica)
    of_replica = {SET_REPLICA_LABEL: str(replica)}
    labels = {**component_labels(owner.metadata.name, "pcs-headless-service", name), **of_replica}
    config = owner.spec.template.headlessServiceConfig
    spec = replace(
        existing.spec if existing is not None else ServiceSpec(),
        selector={**managed_labels(owner.metadata.name), **of_replica},
        clusterIP="None",
        publishNotReadyAddresses=config is None or config.publishNotReadyAddresses,
    )
    return replace(existing or Service(), metadata=child_meta(existing, owner, name, labels), spec=spec)
