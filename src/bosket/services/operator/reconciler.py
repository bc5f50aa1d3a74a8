"""Operator: a reconciler on the Config and the SchedulingShards.

Level-triggered: it reads the present state and changes it to what the pure modules `plan` and `shard` want. A change of
an owned object enqueues its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from bosket.api.condition import find_condition
from bosket.api.coordination import Lease
from bosket.api.core import Pod
from bosket.api.kai.config import CONFIG, CONFIG_NAME, Config, ConfigStatus
from bosket.api.kai.shard import SCHEDULING_SHARD, SchedulingShard, SchedulingShardStatus
from bosket.api.object import ObjectKey
from bosket.api.time import InvalidTime, parse_time
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment
from bosket.services.operator import monitoring, shard
from bosket.services.operator.check import config_problems, shard_problems
from bosket.services.operator.common import Common
from bosket.services.operator.condition import DEPENDENCIES, PROMETHEUS_ANSWERS, Findings, conditions, unavailable
from bosket.services.operator.kind import Served
from bosket.services.operator.manifest import Manifest, owner_reference
from bosket.services.operator.options import Options
from bosket.services.operator.owned import Owned
from bosket.services.operator.plan import plan
from bosket.services.operator.prometheus_probe import PrometheusHealth
from bosket.services.operator.without_effect import config_notes, shard_notes

NAME: Final = "operator"
#: KAI's, so that the operators of both don't work against each other.
LEASE_NAME: Final = "41fce092.run.ai"
_CONFIG_KEY: Final = ObjectKey("", CONFIG_NAME)


class Operator:
    """Deploys what Config and shards ask for, until cancelled."""

    name = NAME
    lease_name = LEASE_NAME

    def __init__(self, env: Environment, options: Options) -> None:
        self._env, self._options = env, options
        self._configs = env.informers.of(Config)
        self._shards = env.informers.of(SchedulingShard)
        self._owned = Owned(env.client, env.informers, env.namespace)
        self._served = Served(env.client, env.clock, options.look_again_seconds)
        self._prometheus = PrometheusHealth(env.clock)
        self._leases = env.informers.of(Lease, namespace=env.namespace)
        #: By lease: the shard whose schedulers compete for it.
        self._shard_of_lease: dict[ObjectKey, str] = {}
        self._controller: Controller[ObjectKey] = Controller(
            NAME, self._reconcile, clock=env.clock, metrics=env.metrics
        )
        self._configs.subscribe(self._config_changed)
        self._shards.subscribe(self._shard_changed)
        self._owned.subscribe(self._owned_changed)
        self._leases.subscribe(self._lease_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._configs.wait_synced()
        await self._shards.wait_synced()
        await self._owned.wait_synced()
        await self._leases.wait_synced()
        self._look_at_everything()
        await self._controller.run()

    # --- what brings an owner here

    def _config_changed(self, change: Change[Config]) -> None:
        if any(each is not None and each.metadata.name == CONFIG_NAME for each in change):
            self._look_at_everything()

    def _shard_changed(self, change: Change[SchedulingShard]) -> None:
        self._look_at_everything()  # others may have waited for its part of the cluster
        if change.new is None and change.old is not None:
            self._soon(_shard_key(change.old.metadata.name))

    def _owned_changed(self, owner: Manifest) -> None:
        if owner["kind"] == CONFIG.kind:
            self._soon(_CONFIG_KEY)
        elif owner["kind"] == SCHEDULING_SHARD.kind:
            self._soon(_shard_key(owner["name"]))

    def _lease_changed(self, change: Change[Lease]) -> None:
        """Renewals change nothing: who holds it does."""
        old, new = change
        if old is not None and new is not None and old.spec.holderIdentity == new.spec.holderIdentity:
            return
        for lease in filter(None, change):
            name = self._shard_of_lease.get(lease.key)
            if name is not None:
                self._soon(_shard_key(name))

    def _look_at_everything(self) -> None:
        self._soon(_CONFIG_KEY)
        for each in self._shards.store.values():
            self._soon(_shard_key(each.metadata.name))

    def _soon(self, key: ObjectKey) -> None:
        self._controller.queue.add_after(key, self._options.gather_seconds)

    # --- what is done about it

    async def _reconcile(self, key: ObjectKey) -> float | None:
        config = self._configs.store.get(_CONFIG_KEY)
        if key == _CONFIG_KEY:
            return await self._reconcile_config(config) if config is not None else None
        found = self._shards.store.get(ObjectKey("", key.name))
        if found is None:
            return await self._remove_leases(key.name)
        return await self._reconcile_shard(found, config)

    async def _reconcile_config(self, config: Config) -> float | None:
        if config.metadata.deletionTimestamp:
            return None
        common = Common(config, self._options, self._env.namespace)
        wrong = config_problems(config.spec, common.namespace)
        probe_after: float | None = None
        if wrong:
            findings = Findings(problems=[str(each) for each in wrong])
        else:
            findings = await self._deploy(plan(common, self._shards.store.values()), owner_reference(CONFIG, config))
            findings, probe_after = await self._with_prometheus(common, replace(findings, notes=config_notes(common)))
        wanted = conditions(findings, config.status.conditions, config.metadata.generation, self._env.clock.now())
        if wanted != config.status.conditions:
            after = msgspec.structs.replace(config, status=ConfigStatus(conditions=wanted))
            self._configs.store.put(await self._env.client.modify(config, after, subresource="status"))
        if findings.failure is not None:
            raise findings.failure
        return min((each for each in (self._look_again(findings), probe_after) if each is not None), default=None)

    async def _reconcile_shard(self, found: SchedulingShard, config: Config | None) -> float | None:
        if found.metadata.deletionTimestamp:
            return None
        findings = await self._shard_findings(found, config)
        wanted = conditions(findings, found.status.conditions, found.metadata.generation, self._env.clock.now())
        if wanted != found.status.conditions:
            after = msgspec.structs.replace(found, status=SchedulingShardStatus(conditions=wanted))
            self._shards.store.put(await self._env.client.modify(found, after, subresource="status"))
        if findings.failure is not None:
            raise findings.failure
        return self._look_again(findings)

    def _look_again(self, findings: Findings) -> float | None:
        """What is in the way may go without a word: a kind is installed, a right is given."""
        return self._options.look_again_seconds if findings.problems or findings.missing else None

    async def _shard_findings(self, found: SchedulingShard, config: Config | None) -> Findings:
        if config is None:
            return Findings(absent=["nothing is deployed"], missing=[f"Config {CONFIG_NAME} doesn't exist"])
        common = Common(config, self._options, self._env.namespace)
        wrong = [f"Config {CONFIG_NAME}: {each}" for each in config_problems(config.spec, common.namespace)]
        wrong += map(str, shard_problems(found, common, self._shards.store.values()))
        if wrong:
            return Findings(problems=wrong)
        leader = await self._leader(found, common)
        owner = owner_reference(SCHEDULING_SHARD, found)
        deployed = await self._deploy(shard.objects(found, common, leader), owner)
        return replace(deployed, notes=shard_notes(found, common))

    async def _deploy(self, desired: Sequence[Manifest], owner: Manifest) -> Findings:
        """Makes the objects and looks what came of it."""
        possible, missing = await self._served.divide(desired)
        applied = await self._owned.apply(possible, owner)
        absent, late = [], []
        for each in possible:
            live = self._owned.live(each)
            if live is None:
                absent.append(f"{each['kind']} [{each['metadata']['name']}] is not there")
            elif (problem := unavailable(each, live)) is not None:
                late.append(problem)
        return Findings(
            problems=[str(each) for each in applied.refused],
            absent=absent,
            unavailable=late,
            missing=missing,
            failure=applied.failure,
        )

    async def _with_prometheus(self, common: Common, findings: Findings) -> tuple[Findings, float | None]:
        """Findings, with whether a Prometheus elsewhere answers; and the seconds until it is asked again."""
        settings = monitoring.settings(common)
        if not settings.externalPrometheusUrl:
            return findings, None
        rules, health = monitoring.probe_settings(common), self._prometheus
        probe_after = await health.look(settings.externalPrometheusUrl, rules)
        # One that answered before isn't called unreachable for a single answer that is lost.
        known = find_condition(common.config.status.conditions, DEPENDENCIES)
        did_answer = known is not None and known.reason == PROMETHEUS_ANSWERS
        if health.problem is None or (did_answer and health.failures < rules.max_failures):
            return replace(findings, prometheus_answers=True), probe_after
        missing = [*findings.missing, health.problem]
        return replace(findings, missing=missing, prometheus_answers=False), probe_after

    async def _leader(self, found: SchedulingShard, common: Common) -> shard.Leader | None:
        """Who decides for the shard, if that is a pod that can be reached."""
        key = ObjectKey(common.namespace, shard.lease_name(found, common))
        self._shard_of_lease[key] = found.metadata.name
        lease = self._leases.store.get(key)
        if lease is not None and found.metadata.uid not in {each.uid for each in lease.metadata.ownerReferences}:
            # So that it goes with the shard, also when no operator is there to see it.
            owner = {"metadata": {"ownerReferences": [owner_reference(SCHEDULING_SHARD, found)]}}
            self._leases.store.put(await self._env.client.patch(Lease, key.name, owner, namespace=key.namespace))
        holder = (lease.spec.holderIdentity or "").partition("_")[0] if lease is not None else ""
        if not holder:
            return None
        try:
            pod = await self._env.client.get(Pod, holder, common.namespace)
        except NotFound:
            return None
        if not pod.status.podIP or pod.metadata.deletionTimestamp:
            return None
        return shard.Leader(holder, pod.metadata.uid, pod.status.podIP)

    async def _remove_leases(self, shard_name: str) -> float | None:
        """The leases of a shard that is gone, once nobody holds them: a scheduler that ends may have made one anew."""
        now, waits = self._env.clock.now(), []
        for key in [key for key, name in self._shard_of_lease.items() if name == shard_name]:
            lease = self._leases.store.get(key)
            if lease is None:
                continue
            seconds = remaining_seconds(lease, now)
            if seconds > 0:
                waits.append(seconds)
                continue
            with suppress(NotFound):
                await self._env.client.delete(Lease, key.name, key.namespace, uid=lease.metadata.uid)
            self._leases.store.discard(key, lease.metadata.uid)
        return min(waits, default=None)


def remaining_seconds(lease: Lease, now: float) -> float:
    """How long somebody holds a lease unless it is renewed; 0 when nobody does."""
    spec = lease.spec
    if not spec.holderIdentity or spec.renewTime is None:
        return 0.0
    try:
        return max(0.0, parse_time(spec.renewTime) + (spec.leaseDurationSeconds or 0) - now)
    except InvalidTime:
        return 0.0


def _shard_key(name: str) -> ObjectKey:
    """Beside the Config's among the keys of one queue."""
    return ObjectKey(SCHEDULING_SHARD.kind, name)
