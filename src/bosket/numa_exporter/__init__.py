"""The NUMA placement exporter: one per node, tells the scheduler in which zones the node's pods really are."""

from bosket.numa_exporter.cpu_zones import UnreadableCpus, read_cpu_zones
from bosket.numa_exporter.exporter import Exporter, Options
from bosket.numa_exporter.kubelet import KubeletSocket, KubeletUnreachable

__all__ = ["Exporter", "KubeletSocket", "KubeletUnreachable", "Options", "UnreadableCpus", "read_cpu_zones"]
