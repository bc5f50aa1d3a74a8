"""A plugin for Bosket's scheduler: `arguments: {label: tier=spot}` has pods prefer nodes with that label."""

from collections.abc import Mapping

import numpy as np

from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import PodClass

WEIGHT = 500.0  #: more than packing and resource types count, less than whether a pod fits at once (1000)


class PreferLabel:
    """Made anew for each cycle, with the arguments that the configuration gives it."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self.key, _, self.value = arguments.get("label", "").partition("=")
        if not self.key:
            raise ConfigurationError("plugin preferlabel: argument label is missing; it must be such as tier=spot")

    def open(self, session: Session) -> None:
        """Takes part in the cycle: here, in the sum of what speaks for each node."""
        nodes = session.snapshot.nodes.nodes
        labelled = [node.metadata.labels.get(self.key) == self.value for node in nodes]
        session.node_scores.add(Labelled(np.where(labelled, WEIGHT, 0.0)))


class Labelled(NodeScorer):
    """Scores of all nodes, in the order of the node table."""

    static = True  # nothing that is decided in a cycle changes labels: asked for once per class of pods

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class  # all of them prefer the same nodes
        return self._scores[rows]
