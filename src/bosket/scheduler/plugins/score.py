"""How much each scoring plugin weighs. Each class of scores outranks all that are smaller."""

MAX_DENSITY = 9.0
RESOURCE_TYPE = 10.0
NUMA = 100.0
AVAILABILITY = 1000.0
GPU_SHARING = 10_000.0
TOPOLOGY = 100_000.0
POD_AFFINITY = 1e6
NOMINATED_NODE = 1e7
