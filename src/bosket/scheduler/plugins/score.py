"""Weights of the scoring plugins: each outranks all smaller ones together."""

MAX_DENSITY = 9.0
RESOURCE_TYPE = 10.0
NUMA = 100.0
AVAILABILITY = 1000.0
GPU_SHARING = 10_000.0
TOPOLOGY = 100_000.0
POD_AFFINITY = 1e6
NOMINATED_NODE = 1e7
