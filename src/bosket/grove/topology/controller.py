"""Keeps schedulers' topologies in line with ClusterTopologyBindings, and writes the bindings' status.

A topology that a binding names as somebody else's is only compared. One that the operator keeps is made, and made anew
when its levels change, which KAI lets nobody do in place; a topology of that name that isn't ours is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from bosket.api.grove import ClusterTopologyBinding, SchedulerTopologyStatus
from bosket.api.grove.operator_configuration import KAI_SCHEDULER
from bosket.api.kai import Topology
from bosket.api.kai.topology import TopologyLevel, TopologySpec
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.ownership import controller_of, controller_reference
from bosket.grove.topology.binding_status import (
    DRIFT_DETECTED,
    DRIFTED_MESSAGE,
    IN_SYNC,
    IN_SYNC_MESSAGE,
    Outcome,
    drift_of,
    status_of,
    unavailable,
)
from bosket.kube.errors import KubeError, NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

NAME: Final = "clustertopology-controller"
_KIND: Final = "ClusterTopologyBinding"


class TopologyController:
    """Reconciles ClusterTopologyBindings until cancelled; `schedulers` are those that are enabled."""

    name = NAME

    def __init__(self, env: Environment, schedulers: Iterable[str]) -> None:
        self._client = env.client
        self._clock = env.clock
        self._events = env.events.for_component(NAME)
        self._tells_kai = KAI_SCHEDULER in schedulers
        self._bindings = env.informers.of(ClusterTopologyBinding)
        self._topologies = env.informers.of(Topology, optional=True)
        self._controller: Controller[str] = Controller(NAME, self._reconcile, clock=env.clock, metrics=env.metrics)
        self._bindings.subscribe(self._binding_changed)
        self._topologies.subscribe(self._topology_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._bindings.wait_synced()
        await self._topologies.wait_synced()
        for binding in self._bindings.store.values():
            self._controller.queue.add(binding.metadata.name)
        await self._controller.run()

    # --- what brings a binding here

    def _binding_changed(self, change: Change[ClusterTopologyBinding]) -> None:
        old, new = change
        if new is not None and (old is None or (old.spec, old.status) != (new.spec, new.status)):
            self._controller.queue.add(new.metadata.name)

    def _topology_changed(self, change: Change[Topology]) -> None:
        """The binding that owns it, or those that name it."""
        for topology in change:
            if topology is None:
                continue
            owner = controller_of(topology)
            if owner is not None and owner.kind == _KIND:
                self._controller.queue.add(owner.name)
                continue
            for binding in self._bindings.store.values():
                if topology.metadata.name in _references(binding).values():
                    self._controller.queue.add(binding.metadata.name)

    # --- what is done about it

    async def _reconcile(self, name: str) -> None:
        binding = self._bindings.store.get(ObjectKey("", name))
        if binding is None or binding.metadata.deletionTimestamp:
            return
        errors: list[Exception] = []
        outcomes: list[Outcome] = []
        references = _references(binding)
        if self._tells_kai:
            try:
                outcomes.append(await self._look_at_kai(binding, references.get(KAI_SCHEDULER)))
            except (KubeError, ForeignTopology) as error:
                errors.append(error)
                status = SchedulerTopologyStatus(
                    schedulerName=KAI_SCHEDULER,
                    topologyReference=references.get(KAI_SCHEDULER, name),
                    inSync=False,
                    message=str(error),
                )
                outcomes.append(Outcome(status, has_failed=True))
        known = {each.status.schedulerName for each in outcomes}
        outcomes += [unavailable(*each) for each in references.items() if each[0] not in known]
        await self._write(binding, outcomes)
        if errors:
            raise errors[0]

    async def _look_at_kai(self, binding: ClusterTopologyBinding, reference: str | None) -> Outcome:
        if reference is None:
            await self._keep_topology(binding)
            status = SchedulerTopologyStatus(
                schedulerName=KAI_SCHEDULER, topologyReference=binding.metadata.name, inSync=True
            )
            return Outcome(status)
        found = await self._find(reference)
        status = SchedulerTopologyStatus(
            schedulerName=KAI_SCHEDULER,
            topologyReference=reference,
            inSync=found is not None and agrees(found, binding),
            schedulerBackendTopologyObservedGeneration=found.metadata.generation if found is not None else None,
        )
        if found is None:
            status = replace(status, message=f'KAI Topology "{reference}" not found')
        elif not status.inSync:
            status = replace(status, message="KAI Topology levels differ from ClusterTopologyBinding levels")
        return Outcome(status)

    async def _keep_topology(self, binding: ClusterTopologyBinding) -> None:
        """Make it, or make it anew; raises `ForeignTopology` where one is there that isn't ours."""
        desired = desired_topology(binding)
        found = await self._find(binding.metadata.name)
        if found is not None:
            if not is_owned(found, binding):
                raise ForeignTopology(binding.metadata.name)
            if agrees(found, binding):
                return
            with suppress(NotFound):
                await self._client.delete(Topology, found.metadata.name)
        await self._client.create(desired)

    async def _find(self, name: str) -> Topology | None:
        """As it is now: what we made a moment ago need not have been heard of yet."""
        try:
            return await self._client.get(Topology, name)
        except NotFound:
            return None

    async def _write(self, binding: ClusterTopologyBinding, outcomes: list[Outcome]) -> None:
        status = status_of(binding, outcomes, self._clock.now())
        if status == binding.status:
            return
        before, after = drift_of(binding.status), drift_of(status)
        try:
            await self._client.modify(binding, replace(binding, status=status), subresource="status")
        except NotFound:
            return
        if after == "True" != before:
            self._events.event(binding, "Warning", DRIFT_DETECTED, DRIFTED_MESSAGE)
        elif after == "False" != before:
            self._events.event(binding, "Normal", IN_SYNC, IN_SYNC_MESSAGE)


class ForeignTopology(Exception):
    """A topology of the binding's name that somebody else made."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"KAI Topology {name} is not owned by ClusterTopologyBinding {name}: delete it, or name it in "
            "spec.schedulerTopologyBindings if it is to stay somebody else's"
        )


def _references(binding: ClusterTopologyBinding) -> dict[str, str]:
    """Topologies that somebody else keeps, by scheduler."""
    return {each.schedulerName: each.topologyReference for each in binding.spec.schedulerTopologyBindings}


def desired_topology(binding: ClusterTopologyBinding) -> Topology:
    """The topology that should be there."""
    metadata = ObjectMeta(name=binding.metadata.name, ownerReferences=(controller_reference(binding),))
    levels = tuple(TopologyLevel(nodeLabel=level.key) for level in binding.spec.levels)
    return Topology(metadata=metadata, spec=TopologySpec(levels=levels))


def is_owned(topology: Topology, binding: ClusterTopologyBinding) -> bool:
    """Whether the topology was made for this very binding."""
    owner = controller_of(topology)
    return owner is not None and owner.uid == binding.metadata.uid


def agrees(topology: Topology, binding: ClusterTopologyBinding) -> bool:
    """Whether both have the same levels; what else a topology calls them doesn't matter."""
    labels = [level.nodeLabel for level in topology.spec.levels]
    return labels == [level.key for level in binding.spec.levels]
