"""Which nodes a pod asks for itself."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.core import Node
from bosket.kube.node_selector import NodeTest, node_test
from bosket.scheduler.model.task import PodClass


def own_nodes(pod_class: PodClass) -> NodeTest:
    """Whether a node is what the pods' node selector and required node affinity ask for."""
    selector: Mapping[str, str] = pod_class.node_selector
    required = node_test(pod_class.required_nodes) if pod_class.required_nodes is not None else None

    def test(node: Node) -> bool:
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
        return required is None or required(node)

    return test
