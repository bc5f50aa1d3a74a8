"""Settings that have no effect in Bosket, as sentences that name the field; conditions of Config and shard repeat them.

A field either changes what is deployed or is named here: `tests/operator/test_every_field.py` checks all fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from bosket.api.kai.config import ConfigSpec
from bosket.api.kai.operand import Image, PodDisruptionBudgetConfig
from bosket.api.kai.shard import SchedulingShard, SchedulingShardSpec
from bosket.services.operator.common import Common
from bosket.services.operator.image import KAI_IMAGES
from bosket.services.operator.operand import OPERANDS
from bosket.services.operator.scheduler_file import GENERATORS, MORE_PLUGINS, PLUGINS, idle_actions
from bosket.services.operator.shard import not_understood, schedulers_are_on

_NO_GO: Final = "Bosket's services have no Go runtime"
_ONE_PORT: Final = "probes are answered on the port of the metrics"
_ADMISSION_SERVES: Final = "the webhooks of all kinds are served by admission, on the ports of spec.admission.webhook"
_DAEMON_SET: Final = "a DaemonSet's pods aren't evicted when a node is drained"
_CONFIG: Final = {
    "spec.scheduler.GOGC": _NO_GO,
    "spec.binder.probePort": _ONE_PORT,
    "spec.admission.webhook.probePort": _ONE_PORT,
    "spec.queueController.controllerService.webhook": _ADMISSION_SERVES,
    "spec.podGroupController.controllerService.webhook": _ADMISSION_SERVES,
    "spec.queueController.controllerService.metrics.name": "ServiceMonitors know the port as metrics",
    "spec.numaPlacementExporter.service.podDisruptionBudget": _DAEMON_SET,
    "spec.numaPlacementExporter.service.k8sClientConfig": "it writes only what changed on its own node",
}
_SHARD: Final = {"spec.goMemLimitRatio": _NO_GO, "spec.goMemLimit": _NO_GO}
_PLUGIN_GROUP: Final = "bosket.scheduler.plugins"


def config_notes(common: Common) -> list[str]:
    """What of a Config has no effect, and why."""
    spec = common.config.spec
    notes = [*map(": ".join, unused_fields(spec)), *_kais_images(spec, common.options.image), *_idle_budgets(common)]
    if not schedulers_are_on(common):
        notes.append("spec.scheduler.service.enabled is false: no SchedulingShard has a scheduler")
    return notes


def shard_notes(shard: SchedulingShard, common: Common) -> list[str]:
    """What of a shard has no effect, and why."""
    notes = [
        *map(": ".join, unused_fields(shard.spec)),
        *(f"spec.args.{name}: the scheduler has no such flag; it is left out" for name in not_understood(shard)),
    ]
    if idle := idle_actions(shard.spec):
        needed, never = " or ".join(sorted(GENERATORS)), ", ".join(idle)
        notes.append(f"spec.plugins: without {needed} no victims are found: {never} never evict")
    installed = {point.name for point in entry_points(group=_PLUGIN_GROUP)}
    for name in sorted(shard.spec.plugins.keys() - PLUGINS.keys() - MORE_PLUGINS - installed):
        notes.append(f"spec.plugins.{name}: has no effect unless the scheduler's image has a plugin of this name")
    if not schedulers_are_on(common):
        notes.append("no scheduler is deployed: spec.scheduler.service.enabled of the Config is false")
    return notes


def unused_fields(spec: ConfigSpec | SchedulingShardSpec) -> Iterator[tuple[str, str]]:
    """Fields that are set and never have an effect, each with the reason."""
    for path, why in (_CONFIG if isinstance(spec, ConfigSpec) else _SHARD).items():
        value: Any = spec
        for name in path.split(".")[1:]:
            value = getattr(value, name, None)
        if value is not None:
            yield path, f"has no effect: {why}"


def _kais_images(spec: ConfigSpec, own: str) -> Iterator[str]:
    for path, image in _structs("spec", spec, Image):
        if image.name in KAI_IMAGES:
            yield f"{path}: has no effect: {image.name} is KAI's, which doesn't run Bosket; {own} is deployed"


def _idle_budgets(common: Common) -> Iterator[str]:
    replicas = {f"spec.{each.field}": each.read(common.config.spec, common).replicas for each in OPERANDS}
    replicas["spec.scheduler"] = getattr(common.config.spec.scheduler, "replicas", None)
    for path, budget in _structs("spec", common.config.spec, PodDisruptionBudgetConfig):
        section = path.removesuffix(".service.podDisruptionBudget")
        if budget.enabled and section in replicas and (count := common.replicas(replicas[section])) < 2:
            yield f"{path}: has no effect: with {count} replica it would only be in the way of those who drain a node"


def _structs(path: str, value: Any, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """All Structs of a kind that are set, with where they stand."""
    if isinstance(value, kind):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for each in msgspec.structs.fields(value):
            yield from _structs(f"{path}.{each.encode_name}", getattr(value, each.name), kind)
