"""NodeObjects: passes nodes that can be read and belong to this shard on to the accounts; leaves others out."""

from __future__ import annotations

from collections.abc import Callable

from bosket.api.core import Node
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity
from bosket.scheduler.model.resource import UncountableAmount, shared_amounts
from bosket.scheduler.model.snapshot import WorkerLabels
from bosket.scheduler.state.node_accounts import NodeAccounts
from bosket.scheduler.state.own.preemption_history import PreemptionHistory
from bosket.scheduler.state.tasks import Tasks


class NodeObjects:
    """Puts node objects into the accounts, and invalidates what depends on a node when it comes or goes."""

    def __init__(
        self,
        accounts: NodeAccounts,
        tasks: Tasks,
        preemptions: PreemptionHistory,
        worker_labels: WorkerLabels | None,
        report: Callable[[str], None],
    ) -> None:
        self._accounts, self._tasks, self._preemptions = accounts, tasks, preemptions
        self._worker_labels, self._report = worker_labels, report
        self.unread: set[ObjectKey] = set()  #: nodes with amounts that can't be read

    def put(self, node: Node) -> None:
        name, workers = node.metadata.name, self._worker_labels
        try:
            amounts = shared_amounts(tuple(node.status.allocatable.items()))
        except (InvalidQuantity, UncountableAmount) as error:
            self._report(f"Node {name}: status.allocatable: {error}; the node is left out")
            self.drop(name)
            self.unread.add(node.key)
            return
        self.unread.discard(node.key)
        if workers is not None and not {workers.gpu, workers.cpu} & node.metadata.labels.keys():
            self.drop(name)
            return
        is_new = name not in self._accounts.nodes
        if self._accounts.put(node, amounts):
            self._preemptions.forget_all()
        if is_new:
            self._tasks.node_came_or_went(name)

    def drop(self, name: str) -> None:
        self.unread.discard(ObjectKey("", name))
        if self._accounts.drop(name):
            self._preemptions.forget_all()
            self._tasks.node_came_or_went(name)
