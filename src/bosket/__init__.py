"""Bosket schedules AI workloads on Kubernetes: gangs, fair hierarchical queues, shared GPUs, topology."""

__version__ = "0.1.0"
