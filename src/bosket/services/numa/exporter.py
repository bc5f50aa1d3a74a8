"""Exporter: keeps an annotation of this node's pods up to date with what the kubelet assigned.

A pass asks the kubelet and writes what changed since the last pass; a rarer pass compares with the pods' annotations
and repairs these. Pods without exclusive resources in a zone are skipped. A failed pass is logged, and the next one
tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bosket.api.core import Pod
from bosket.api.keys import NUMA_OBSERVED_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.kube.client import Client
from bosket.kube.errors import KubeError, NotFound
from bosket.runtime.clock import Clock
from bosket.services.numa.kubelet import KubeletUnreachable
from bosket.services.numa.placement import annotation_of, placement_of
from bosket.services.numa.pod_resources import PodResources

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """Which node, and how often to look; a `drift_resync_seconds` of 0 for never."""

    node_name: str
    poll_seconds: float = 1.0
    drift_resync_seconds: float = 60.0


class Kubelet(Protocol):
    """Who is asked which pod has what."""

    async def list(self) -> list[PodResources]:
        """Raises `KubeletUnreachable`."""
        ...


class Exporter:
    """The exporter of one node; a `Service` that runs on every node at once, so nobody is elected."""

    name = "numa-exporter"

    def __init__(
        self, client: Client, kubelet: Kubelet, cpu_zones: Mapping[int, int], clock: Clock, options: Options
    ) -> None:
        self._client = client
        self._kubelet = kubelet
        self._cpu_zones = cpu_zones
        self._clock = clock
        self._options = options
        self._written: dict[ObjectKey, str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        resync = self._options.drift_resync_seconds
        repaired_at = self._clock.monotonic()
        while True:
            due = resync > 0 and self._clock.monotonic() - repaired_at >= resync
            if due:
                repaired_at = self._clock.monotonic()
            try:
                await (self.repair() if due else self.look())
            except (KubeletUnreachable, KubeError) as error:
                _log.error("could not export NUMA placements: %s", error)
            await self._clock.sleep(self._options.poll_seconds)

    async def look(self) -> None:
        """One pass: write what is new."""
        seen = await self._seen()
        for pod, value in seen.items():
            if self._written.get(pod) != value:
                await self._write(pod, value)
        self._written = {pod: value for pod, value in self._written.items() if pod in seen}

    async def repair(self) -> None:
        """The same, compared with what the pods on this node say."""
        seen = await self._seen()
        if not seen:
            return
        pods = await self._client.list(Pod, fields=f"spec.nodeName={self._options.node_name}")
        for pod in pods.items:
            value = seen.get(pod.key)
            if value is None:
                continue
            if pod.metadata.annotations.get(NUMA_OBSERVED_ANNOTATION) == value:
                self._written[pod.key] = value
            else:
                await self._write(pod.key, value)

    async def _seen(self) -> dict[ObjectKey, str]:
        """What the annotation of each pod should be, of those that have something in a zone."""
        found = {}
        for pod in await self._kubelet.list():
            placement = placement_of(pod, self._cpu_zones)
            if placement:
                found[ObjectKey(pod.namespace, pod.name)] = annotation_of(placement)
        return found

    async def _write(self, pod: ObjectKey, value: str) -> None:
        patch = {"metadata": {"annotations": {NUMA_OBSERVED_ANNOTATION: value}}}
        try:
            await self._client.patch(Pod, pod.name, patch, namespace=pod.namespace)
        except NotFound:
            return  # it has gone, or isn't the API server's: the kubelet has pods of its own
        except KubeError as error:
            _log.error("could not write the NUMA placement of pod %s: %s", pod, error)
            return
        self._written[pod] = value
        _log.debug("pod %s has %s", pod, value)
