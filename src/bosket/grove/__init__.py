"""Grove: inference sets on Kubernetes, from PodCliqueSets to pods and PodGangs.

`render` makes the objects that should exist, `status` computes what is reported of those that do, and `operator` is
the service around both. `backends` translates PodGangs for schedulers, `admission` checks what users write, `topology`
follows ClusterTopologies, and `initc` is the program that waits in a pod for the PodCliques that start first.
"""
