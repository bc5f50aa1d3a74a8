"""Inventory: pools of devices from ResourceSlices, by the nodes that reach them.

Only the newest generation of a pool counts, and only when all of its slices exist. A slice that changes rebuilds its
pool; caches of other pools are kept.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from bosket.api.core import NodeSelector
from bosket.api.device_claim import is_gpu
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity, parse
from bosket.api.resource_k8s import (
    Counter,
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)
from bosket.scheduler.model.device import CounterId, DeviceGpus, DeviceId, Offer, Pool, PoolId
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """Devices and the pods that claim them, as of a snapshot."""

    pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    local: Mapping[str, frozenset[PoolId]] = field(default_factory=dict)  #: by node: pools that it alone reaches
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    claims: Mapping[ObjectKey, ResourceClaim] = field(default_factory=dict)
    claimants: Mapping[ObjectKey, Task] = field(default_factory=dict)  #: pods that claim devices, or can be served so

    def has_gpus(self, node: str) -> bool:
        """Whether GPUs of the node are offered as devices."""
        return any(is_gpu(pool.driver) for pool in self.local.get(node, ()))


NO_INVENTORY = Inventory()


class Pools:
    """All slices, as pools."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.slices: dict[str, ResourceSlice] = {}
        self.unread: set[ObjectKey] = set()  #: slices that name no pool
        self.rules: dict[str, DeviceTaintRule] = {}
        self._of_pool: dict[PoolId, set[str]] = {}
        self._pools: Shared[PoolId, Pool] = Shared()
        self._local: Shared[str, frozenset[PoolId]] = Shared()
        self._dirty: set[PoolId] = set()

    @property
    def is_unchanged(self) -> bool:
        return not self._dirty

    def put(self, each: ResourceSlice) -> None:
        name = each.metadata.name
        before = self.slices.get(name)
        if before is not None and before.spec == each.spec:
            return
        self.drop(name)
        pool = _pool_of(each.spec)
        if pool is None:
            self.unread.add(each.key)
            self._report(f"ResourceSlice {name}: spec.pool is missing; the slice is left out")
            return
        self.slices[name] = each
        self._of_pool.setdefault(pool, set()).add(name)
        self._dirty.add(pool)

    def drop(self, name: str) -> None:
        self.unread.discard(ObjectKey("", name))
        known = self.slices.pop(name, None)
        pool = _pool_of(known.spec) if known is not None else None
        if pool is not None:
            self._of_pool[pool].discard(name)
            if not self._of_pool[pool]:
                del self._of_pool[pool]
            self._dirty.add(pool)

    def put_rule(self, rule: DeviceTaintRule) -> None:
        before = self.rules.get(rule.metadata.name)
        if before is None or before.spec != rule.spec:
            self.drop_rule(rule.metadata.name)
            self.rules[rule.metadata.name] = rule
            self._rule_changed(rule)

    def drop_rule(self, name: str) -> None:
        rule = self.rules.pop(name, None)
        if rule is not None:
            self._rule_changed(rule)

    def _rule_changed(self, rule: DeviceTaintRule) -> None:
        chosen = rule.spec.deviceSelector
        if chosen is not None:
            self._dirty.update(pool for pool in self._of_pool if chosen.driver in (None, pool.driver))

    def renew(self) -> set[str]:
        """Rebuilds the pools with changed slices; returns the nodes whose devices may have changed."""
        nodes: set[str] = set()
        for key in self._dirty:
            before: Pool | None = self._pools.get(key, None)
            if before is not None:
                nodes.update(self._move(before, present=False))
                self._pools.drop(key)
            if key in self._of_pool:
                pool = build_pool(
                    key, [self.slices[name] for name in sorted(self._of_pool[key])], self._rules_in_order()
                )
                if pool.problem:
                    self._report(f"devices of pool {key.driver}/{key.pool} are not used: {pool.problem}")
                self._pools.put(key, pool)
                nodes.update(self._move(pool, present=True))
        self._dirty.clear()
        return nodes

    def freeze(self) -> tuple[Mapping[PoolId, Pool], Mapping[str, frozenset[PoolId]]]:
        return self._pools.freeze(), self._local.freeze()

    def gpus_on(self, node: str) -> DeviceGpus:
        keys = frozenset(key for key in self._local.get(node, ()) if is_gpu(key.driver))
        pools = (self._pools.get(key, None) for key in keys)
        return DeviceGpus(sum(len(pool.offers) for pool in pools if pool is not None), keys)

    def _rules_in_order(self) -> list[DeviceTaintRule]:
        return [rule for _, rule in sorted(self.rules.items())]

    def _move(self, pool: Pool, *, present: bool) -> Iterator[str]:
        node = pool.node
        if not node:
            return
        known = self._local.get(node, frozenset())
        after = known | {pool.id} if present else known - {pool.id}
        if after:
            self._local.put(node, after)
        else:
            self._local.drop(node)
        yield node


def build_pool(key: PoolId, slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule] = ()) -> Pool:
    """The pool of these slices, given in order of names; with the taints of DeviceTaintRules."""
    every = [(each, each.spec, each.spec.pool) for each in slices]
    newest = max(pool.generation for _, _, pool in every if pool is not None)
    current = [(each, spec, pool) for each, spec, pool in every if pool is not None and pool.generation == newest]
    wanted = max(pool.resourceSliceCount for _, _, pool in current)
    problem = f"it has {len(current)} of {wanted} slices" if len(current) != wanted else ""
    offers: list[Offer] = []
    counters: dict[CounterId, Fraction] = {}
    for each, spec, _ in current:
        try:
            offers += _offers(key, spec, rules)
            for shared in spec.sharedCounters:
                counters.update(_amounts(shared.name, shared.counters))
        except InvalidQuantity as error:
            problem = f"ResourceSlice {each.metadata.name}: spec: {error}"
    names = [offer.id.device for offer in offers]
    twice = next((name for name, times in sorted(Counts(names).items()) if times > 1), None)
    if twice is not None:
        problem = f'it has two devices of the name "{twice}"'
    unknown = next((counter for offer in offers for counter, _ in offer.draws if counter not in counters), None)
    if unknown is not None and not problem:
        problem = f'a device consumes "{unknown.counter}" of "{unknown.counters}", which no slice has'
    return Pool(key, tuple(offers), counters, problem)


def _pool_of(spec: ResourceSliceSpec) -> PoolId | None:
    return PoolId(spec.driver, spec.pool.name) if spec.pool is not None else None


def _offers(key: PoolId, spec: ResourceSliceSpec, rules: Sequence[DeviceTaintRule]) -> Iterator[Offer]:
    for plain in spec.devices:
        taints = tuple(rule.spec.taint for rule in rules if rule.spec.taint is not None and _means(rule, key, plain))
        device = msgspec.structs.replace(plain, taints=plain.taints + taints) if taints else plain
        place: tuple[str, NodeSelector | None, bool]
        if spec.perDeviceNodeSelection:
            place = device.nodeName or "", device.nodeSelector, bool(device.allNodes)
        else:
            place = spec.nodeName or "", spec.nodeSelector, bool(spec.allNodes)
        for capacity in device.capacity.values():
            parse(capacity.value)
        draws: dict[CounterId, Fraction] = {}
        for used in device.consumesCounters:
            for counter, amount in _amounts(used.counterSet, used.counters):
                draws[counter] = draws.get(counter, Fraction(0)) + amount
        yield Offer(DeviceId(key.driver, key.pool, device.name), device, *place, draws=tuple(draws.items()))


def _means(rule: DeviceTaintRule, pool: PoolId, device: Device) -> bool:
    """Whether the rule taints the device. An empty selector selects all devices, an absent one none."""
    chosen = rule.spec.deviceSelector
    if chosen is None:
        return False
    wanted = (chosen.driver, chosen.pool, chosen.device)
    return all(want in (None, has) for want, has in zip(wanted, (pool.driver, pool.pool, device.name), strict=True))


def _amounts(counters: str, values: Mapping[str, Counter]) -> Iterator[tuple[CounterId, Fraction]]:
    for name, counter in values.items():
        yield CounterId(counters, name), parse(counter.value)
