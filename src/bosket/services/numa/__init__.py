"""The NUMA placement exporter: one per node; reports in which zones the node's pods are."""

from bosket.services.numa.exporter import Exporter, Options
from bosket.services.numa.kubelet import KubeletSocket, KubeletUnreachable
from bosket.services.numa.placement import UnreadableCpus, read_cpu_zones

__all__ = ["Exporter", "KubeletSocket", "KubeletUnreachable", "Options", "UnreadableCpus", "read_cpu_zones"]
