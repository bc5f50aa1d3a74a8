"""What the rules may look up in the cluster beside the reviewed object.

The webhook service answers from its informers, the embedded cluster from its store. Answers may be a moment old.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bosket.api.grove import ClusterTopologyBinding


class Lookup(Protocol):
    """The cluster, as far as the rules care."""

    def binding(self, name: str) -> ClusterTopologyBinding | None:
        """The ClusterTopologyBinding of that name."""
        ...

    def set_annotations(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The annotations of a PodCliqueSet; None if there is none."""
        ...

    def volcano_queue_state(self, name: str) -> str | None:
        """What Volcano says of a queue; None if there is none."""
        ...

    def has_hyper_nodes(self) -> bool:
        """Whether Volcano knows which nodes are close to each other."""
        ...
