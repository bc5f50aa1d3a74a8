"""Clusters of nodes with NUMA zones, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from bosket.api.kai import NUMAZonePlacement
from bosket.api.keys import NUMA_OBSERVED_ANNOTATION
from bosket.scheduler.configuration.configuration import DEFAULT_PLUGINS, Configuration, PluginChoice
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, pod

Zones = Mapping[str, Mapping[str, str]]


def aligning(*actions: str, **arguments: str) -> Configuration:
    """The default plugins and `numa`, with these arguments."""
    plugins = (*DEFAULT_PLUGINS, PluginChoice("numa", arguments))
    configuration = Configuration(plugins=plugins)
    return replace(configuration, actions=actions) if actions else configuration


def guaranteed(name: str, cpu: str = "3", memory: str = "1Gi") -> PodBuilder:
    """A pod whose CPUs and memory are its own, of a group of its name."""
    return pod(name).cpu(cpu).memory(memory).guaranteed().of_group(name)


def seen_in(member: PodBuilder, zones: Zones) -> PodBuilder:
    """The same, with what its node's exporter saw."""
    return member.annotate(NUMA_OBSERVED_ANNOTATION, written(zones))


def written(zones: Zones) -> str:
    """As an annotation has it."""
    return msgspec.json.encode([{"zone": zone, "amount": amount} for zone, amount in zones.items()]).decode()


def placements(zones: Zones) -> tuple[NUMAZonePlacement, ...]:
    return tuple(NUMAZonePlacement(zone=zone, amount=dict(amount)) for zone, amount in zones.items())


def zones_by_pod(decisions: Decisions) -> dict[str, dict[str, dict[str, str]]]:
    """Pod → zone → resource → amount, of all binds."""
    return {
        bind.task.key.name: {
            each.zone: {name: str(amount) for name, amount in each.amount.items()} for each in bind.numa_zones
        }
        for bind in decisions.binds
    }
