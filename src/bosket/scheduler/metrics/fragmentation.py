"""Metrics of fragmented GPUs, in total and by shape of pods. Computed when scraped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bosket.scheduler.answers.fragmentation import FragmentationReport, report
from bosket.scheduler.model.snapshot import Snapshot

#: Only so many shapes, the most frequent ones, become series: users' pods must not decide how many there are.
MOST_TOLD: Final = 20


class FragmentationMetrics(Collector):
    """Of the latest snapshot that was decided on."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._report: FragmentationReport | None = None

    def update(self, snapshot: Snapshot) -> None:
        known = self._snapshot
        if known is None or known.nodes is not snapshot.nodes or known.pod_mix is not snapshot.pod_mix:
            self._report = None
        self._snapshot = snapshot

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if self._report is None and self._snapshot is not None:
            self._report = report(self._snapshot)
        found = self._report
        total = GaugeMetricFamily(
            "bosket_scheduler_fragmented_gpus_ratio",
            "Part of all GPUs that is free and of no use to pods, as expected over the pods that the cluster sees",
        )
        by_shape = GaugeMetricFamily(
            "bosket_scheduler_fragmented_gpus_by_shape_ratio",
            "Part of all GPUs that is free and of no use to pods of a shape; of the most frequent shapes",
            labels=("shape",),
        )
        if found is not None and found.gpus:
            total.add_metric((), found.share(found.fragmented))
            for each in found.shapes[:MOST_TOLD]:
                by_shape.add_metric((each.shape,), found.share(each.fragmented))
        yield total
        yield by_shape
