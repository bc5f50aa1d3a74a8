"""The DaemonSet controller: one pod on every node that suits it.

`daemon_plan` decides, this module carries out. The pods are ordinary ones with an affinity for their node: whichever
scheduler they name places them.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.apps import DaemonSet
from bosket.api.core import Node
from bosket.api.object import ObjectKey
from bosket.embedded.controllers.adoption import sets_by_pod
from bosket.embedded.controllers.daemon_plan import DaemonPlan, Daemons, new_pod, plan
from bosket.embedded.controllers.pod_control import PodControl
from bosket.embedded.controllers.pods import is_ready, seconds_until_available
from bosket.embedded.controllers.revision_history import RevisionHistory, revision_of, sets_by_revision
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment


class DaemonSetController:
    """Keeps every DaemonSet's pods; a `Service`."""

    name = "daemonset-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._sets = environment.informers.of(DaemonSet)
        self._nodes = environment.informers.of(Node)
        self._revisions = RevisionHistory(environment)
        self._pods = PodControl(environment, self.name)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=2, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._sets, lambda each: (each.key,))
        self._controller.watch(self._pods.informer, sets_by_pod("DaemonSet", self._sets))
        self._controller.watch(self._revisions.informer, sets_by_revision("DaemonSet"))
        self._nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        """Until cancelled."""
        await self._nodes.wait_synced()  # without nodes, all pods would be of nodes that went
        await self._controller.run()

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change
        if old is not None and new is not None and _what_counts(old) == _what_counts(new):
            return
        for each in self._sets.store.values():
            self._controller.queue.add(each.key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        owner = self._sets.store.get(key)
        if owner is None or owner.metadata.deletionTimestamp is not None:
            return None
        try:
            return await self._step(owner)
        except NotFound:
            return None  # it went away meanwhile, or its namespace

    async def _step(self, owner: DaemonSet) -> float | None:
        pods = await self._pods.claim(owner, owner.spec.selector)
        revision = await self._revisions.present(owner)
        now = self._clock.now()
        name = revision.metadata.name
        nodes = sorted(self._nodes.store.values(), key=lambda node: node.metadata.name)
        daemons = Daemons(owner, pods, nodes, name, self._pods.is_going, is_ready, now)
        wanted = plan(daemons)
        for pod in wanted.delete:
            await self._pods.delete(owner, pod)
        for node in wanted.create:
            await self._pods.create(owner, new_pod(owner, owner.spec.template, name, node))
        await self._tell(owner, plan(replace_pods(daemons, self._pods)) if wanted.create else wanted)
        in_use = {f"{owner.metadata.name}-{revision_of(pod)}" for pod in self._pods.of(owner)}
        await self._revisions.truncate(owner, {name, *in_use})
        waits = (seconds_until_available(pod, owner.spec.minReadySeconds, now) for pod in pods)
        return min((wait for wait in waits if wait), default=None)

    async def _tell(self, owner: DaemonSet, seen: DaemonPlan) -> None:
        status = replace(
            owner.status,
            observedGeneration=owner.metadata.generation,
            desiredNumberScheduled=seen.desired,
            currentNumberScheduled=seen.scheduled,
            numberMisscheduled=seen.misscheduled,
            numberReady=seen.ready,
            numberAvailable=seen.available,
            numberUnavailable=seen.desired - seen.available,
            updatedNumberScheduled=seen.updated,
        )
        after = replace(owner, status=status)
        self._sets.store.put(await self._client.modify(owner, after, subresource="status"))


def replace_pods(daemons: Daemons, pods: PodControl) -> Daemons:
    """The same with the pods that were just made."""
    return Daemons(
        daemons.owner,
        pods.of(daemons.owner),
        daemons.nodes,
        daemons.revision,
        daemons.is_going,
        daemons.is_ready,
        daemons.now,
    )


def _what_counts(node: Node) -> tuple[object, ...]:
    """What of a node can change where daemons run; others write into its status all the time."""
    return (node.metadata.uid, node.metadata.labels, node.spec.taints)
