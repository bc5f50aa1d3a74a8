"""DeviceLedger: devices and claims during a cycle: the snapshot's, changed by placements and evictions.

Follows every operation of a statement and its rollback. Built when the first pod with claims is looked at, so cycles
without any pay nothing. Devices of terminating pods can be waited for, and are chosen only where no others suffice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from bosket.api.keys import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.api.quantity import parse
from bosket.api.resource_k8s import AllocationResult, ResourceClaim
from bosket.kube.node_selector import node_test
from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.device import DeviceId, DeviceNeeds, PoolId
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import ACTIVE_USED, Task, TaskStatus
from bosket.scheduler.plugins.dynamicresources.allocator import Allotment, Given, Refusal, allocate
from bosket.scheduler.plugins.dynamicresources.claim import ClaimState
from bosket.scheduler.plugins.dynamicresources.demand import Demand, UnusableClaim
from bosket.scheduler.plugins.dynamicresources.gpu_count import GpuCount
from bosket.scheduler.plugins.dynamicresources.interchangeable import Interchangeable
from bosket.scheduler.plugins.dynamicresources.needed import Demands
from bosket.scheduler.plugins.dynamicresources.reach import Reaches
from bosket.scheduler.plugins.dynamicresources.result import allocation_of
from bosket.scheduler.plugins.dynamicresources.use import DeviceUse

#: Pods whose claims will be free, though they still have them.
GOING = frozenset({TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})

ClaimKey = ObjectKey | str  #: of a claim; the pod's uid for the one that stands for its extended resources


class Fit(NamedTuple):
    """The answer about a class and a node."""

    refusal: str = ""  #: empty where the claims can be allocated
    waits: bool = False  #: whether devices must be released first
    given: tuple[tuple[Demand, tuple[Given, ...]], ...] = ()  #: devices for what is not allocated yet


class Evicted(NamedTuple):
    """What a task held when it was evicted."""

    row: NodeRow
    allocations: tuple[tuple[ClaimKey, AllocationResult], ...]
    disputed: bool  #: whether others had the same devices, as late events may pretend


class DeviceLedger:
    """All claims and devices; changed by placements only."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inventory = session.snapshot.inventory
        self.reaches = Reaches(session.snapshot)
        self._now, self._later = DeviceUse(), DeviceUse()  # in use now, and after those that go have gone
        self._claims: dict[ClaimKey, ClaimState] = {}
        self._evicted: dict[Task, list[Evicted]] = {}  # the last eviction comes last
        self.demands = Demands(session.snapshot)
        self._fits: dict[tuple[int, int], tuple[Hashable, Fit]] = {}  # by needs and row, with what each rests on
        self.gpus = GpuCount(session, self.reaches)
        self._interchangeable = Interchangeable(self.reaches)
        self._read_claims()

    def _read_claims(self) -> None:
        users: dict[ClaimKey, set[str]] = {}
        promised: dict[ClaimKey, AllocationResult] = {}
        going: set[str] = set()
        unplaced: set[str] = set()
        for _, task in sorted(self._inventory.claimants.items()):
            assert task.devices is not None
            if task.status in GOING:
                going.add(task.uid)
            if not task.node or task.status not in ACTIVE_USED:
                unplaced.add(task.uid)
                continue
            self.gpus.found(task)
            for ref in task.devices.refs:
                users.setdefault(ref.key, set()).add(task.uid)
            for name, allocation in task.devices.promised:
                promised.setdefault(name, allocation)
            if task.devices.promised_extended is not None:
                users[task.uid] = {task.uid}
                promised[task.uid] = task.devices.promised_extended
        for key, claim in self._inventory.claims.items():
            if _is_left_over(claim, unplaced):
                continue
            reserved = {each.uid for each in claim.status.reservedFor} | users.pop(key, set())
            given = claim.status.allocation or promised.get(key)
            if reserved or given is not None:  # the others' states are made when they are asked for
                self._claims[key] = ClaimState(given, reserved, going & reserved)
        for pod, uids in users.items():
            if pod in promised:
                self._claims[pod] = ClaimState(promised[pod], uids, going & uids)
        for state in self._claims.values():
            if state.allocation is not None:
                self._now.add(state.allocation)
                if state.stays:
                    self._later.add(state.allocation)

    # What can be asked

    def state_of(self, key: ClaimKey) -> ClaimState:
        found = self._claims.get(key)
        if found is None:
            found = self._claims[key] = ClaimState(None, (), ())
        return found

    def known(self, key: ClaimKey) -> ClaimState | None:
        """The same; None where nobody has the claim, or had it, and it isn't allocated."""
        return self._claims.get(key)

    def global_inputs(self, needs: DeviceNeeds) -> Hashable:
        """What verdicts about all nodes rest on."""
        common = needs.common
        return self.reaches.version, tuple([self.state_of(key).version for key in common]) if common else ()

    def fit(self, needs: DeviceNeeds, row: NodeRow) -> Fit:
        """Whether pods with these needs can have their devices on the node. Kept until one of these changes."""
        stamp = (self.global_inputs(needs), self.reaches.versions[row])
        known = self._fits.get((needs.number, row))
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            fit = self._look(needs, row)
        except UnusableClaim as error:
            fit = Fit(str(error))
        self._fits[needs.number, row] = (stamp, fit)
        return fit

    def _look(self, needs: DeviceNeeds, row: NodeRow) -> Fit:
        node = self._session.snapshot.nodes.nodes[row]
        for each in needs.claims:
            allocation = self.state_of(each.key).allocation if each.key is not None else None
            nodes = allocation.nodeSelector if allocation is not None else None
            if nodes is not None and not node_test(nodes)(node):
                return Fit(f"node(s) can't reach the devices of resource claim {each.key}")
        demands = self._open_demands(needs, row)
        if not demands:
            return Fit()
        found, waits = self._allocate(demands, row)
        if isinstance(found, Refusal):
            return Fit(found.text)
        return Fit(waits=waits, given=tuple(zip(demands, found, strict=True)))

    def _open_demands(self, needs: DeviceNeeds, row: NodeRow) -> list[Demand]:
        """What is not allocated yet. Raises UnusableClaim."""
        demands = [
            self.demands.of(needs, index)
            for index, each in enumerate(needs.claims)
            if each.key is None or self.state_of(each.key).allocation is None
        ]
        lacking = self.demands.lacking(needs, row)
        if lacking:
            demands.append(self.demands.extended(lacking))
        return demands

    def allocation(self, key: ClaimKey) -> AllocationResult | None:
        return self.state_of(key).allocation

    # What happens

    def stays(self, task: Task, row: NodeRow) -> bool:
        """Whether an evicted task's devices are still untaken, so that it can be spared."""
        before = self._evicted[task][-1]
        if before.row != row:
            return False
        for key, allocation in before.allocations:
            current = self.state_of(key).allocation
            if current is allocation or (current is None and (before.disputed or self._is_free(allocation))):
                continue
            return False
        return True

    def done(self, kind: Kind, task: Task, row: NodeRow) -> None:
        if kind is Kind.EVICT:
            self._evict(task, row)
        elif kind is Kind.SPARE:
            self._restore(task, row)
        else:
            assert task.pod_class.device_needs is not None
            self._place(task, task.pod_class.device_needs, row)
            self.gpus.arrived(task, row, self._gpu_devices(task, row), allocated=kind is Kind.ALLOCATE)

    def undone(self, kind: Kind, task: Task, row: NodeRow) -> None:
        if kind is Kind.EVICT:
            self._restore(task, row)
        elif kind is Kind.SPARE:
            self._evict(task, row)
        else:
            self.gpus.left(task, row, self._gpu_devices(task, row), allocated=kind is Kind.ALLOCATE)
            self._leave(task, was_real=False)

    def _evict(self, task: Task, row: NodeRow) -> None:
        self.gpus.left(task, row, self._gpu_devices(task, row), allocated=False)
        kept = self._leave(task, was_real=True)
        given_back = [allocation for key, allocation in kept if self.state_of(key).allocation is None]
        disputed = not all(map(self._is_free, given_back))
        self._evicted.setdefault(task, []).append(Evicted(row, tuple(kept), disputed))

    def _leave(self, task: Task, *, was_real: bool) -> list[tuple[ClaimKey, AllocationResult]]:
        """What the task had. `was_real`: its devices are in use until it has gone."""
        kept = []
        for key in self._keys(task):
            state = self.state_of(key)
            allocation, stayed = state.allocation, state.stays
            if not state.has(task.uid):
                continue
            state.leave(task.uid)
            if allocation is None:
                continue
            kept.append((key, allocation))
            if stayed and not state.stays:
                self._later.remove(allocation)
            if not state.is_used:
                state.allocate(None)
                if not was_real:
                    self._now.remove(allocation)
            self.reaches.changed(allocation)
        return kept

    def _place(self, task: Task, needs: DeviceNeeds, row: NodeRow) -> None:
        assert task.devices is not None
        given = iter(self.fit(needs, row).given)
        node = self._session.snapshot.nodes.nodes[row].metadata.name
        for key in self._wanted(task, needs, row):
            state = self.state_of(key)
            allocation = state.allocation
            if allocation is None:
                found = next(given, None)
                if found is None:
                    continue  # never, by the verdict before; the binder would refuse a claim without devices
                demand, devices = found
                owner = f"{key}/{task.uid}"
                allocation = allocation_of(demand, devices, self._inventory.classes, node=node, owner=owner)
                state.allocate(allocation)
                self._now.add(allocation)
                self._later.add(allocation)
            elif not state.stays:
                self._later.add(allocation)
            state.join(task.uid, again=False)
            self.reaches.changed(allocation)

    def _restore(self, task: Task, row: NodeRow) -> None:
        """The task has again what it had when it was last evicted."""
        for key, allocation in self._evicted[task].pop().allocations:
            state = self.state_of(key)
            if state.allocation is None:
                state.allocate(allocation)
                self._later.add(allocation)
            elif not state.stays:
                self._later.add(allocation)
            state.join(task.uid, again=True)
            self.reaches.changed(allocation)
        self.gpus.arrived(task, row, self._gpu_devices(task, row), allocated=False)

    def _is_free(self, allocation: AllocationResult) -> bool:
        """Whether the devices are nobody's, those that go apart. Of a device that several may have, the part is."""
        for each in allocation.devices.results:
            if each.adminAccess:
                continue
            device = DeviceId(each.driver, each.pool, each.device)
            offer = self.reaches.offer(device)
            pool = self._inventory.pools.get(PoolId(each.driver, each.pool))
            if offer is None or pool is None:
                if self._later.is_held(device):
                    return False
                continue
            if offer.is_shared:
                parts = self._later.parts_of(device)
                for name, amount in each.consumedCapacity.items():
                    whole = offer.device.capacity.get(name)
                    if whole is not None and parts.get(name, 0) + parse(amount) > parse(whole.value):
                        return False
            elif self._later.is_held(device):
                return False
            drawn = self._later.drawn(pool)
            if any(drawn.get(counter, 0) + amount > pool.counters[counter] for counter, amount in offer.draws):
                return False
        return True

    def _allocate(self, demands: list[Demand], row: NodeRow) -> tuple[Allotment | Refusal, bool]:
        """Devices on the node, and whether some of them are still in use."""
        at_once = self._interchangeable.allocate(demands, row, self._now)
        if at_once is not None:
            return at_once, False
        reach = self.reaches.of(row)
        found = allocate(demands, reach, self._now)
        if isinstance(found, Refusal) and self._now.size > self._later.size:
            later = allocate(demands, reach, self._later)
            if not isinstance(later, Refusal):
                return later, True
        return found, False

    def _wanted(self, task: Task, needs: DeviceNeeds, row: NodeRow) -> Iterator[ClaimKey]:
        """The claims that the task is to have there, in the order of `_open_demands`."""
        assert task.devices is not None
        keys = {ref.name: ref.key for ref in task.devices.refs if ref.name}
        yield from (keys[each.name] for each in needs.claims)
        if self.demands.lacking(needs, row):
            yield task.uid

    def _keys(self, task: Task) -> Iterator[ClaimKey]:
        """The claims that the task may have."""
        assert task.devices is not None
        yield from (ref.key for ref in task.devices.refs)
        if task.uid in self._claims:
            yield task.uid

    def _gpu_devices(self, task: Task, row: NodeRow) -> tuple[DeviceId, ...]:
        """Those of its devices that are among the node's GPUs, as far as its claims count as such."""
        assert task.devices is not None
        keys = [ref.key for ref in task.devices.refs if ref.name]
        allocations = [self._claims[key].allocation for key in keys if key in self._claims]
        return self.gpus.counted(task.devices.gpus, allocations, row)


def _is_left_over(claim: ResourceClaim, unplaced: set[str]) -> bool:
    """Whether the claim was made for the extended resources of a pod that was not bound after all. The binder made it
    for that bind only, and deletes it before it makes another."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return False
    return any(owner.controller and owner.uid in unplaced for owner in claim.metadata.ownerReferences)
