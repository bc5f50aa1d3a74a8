"""Status of PodCliqueSets, scaling groups and PodCliques, computed from what is observed."""
