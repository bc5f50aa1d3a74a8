"""Settings of the Grove operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator may be told; defaults are those of Grove's own configuration."""

    #: Whose the pods are that name no scheduler.
    default_scheduler: str = "default-scheduler"
    #: Whether topology constraints are handed on to schedulers.
    topology_aware_scheduling: bool = True
    #: Whether ComputeDomains are made for sets that ask for them.
    auto_mnnvl: bool = False
    #: The image of the init container that waits for those that start before.
    init_container_image: str = "grove-initc:latest"
    concurrent_set_syncs: int = 10
    concurrent_clique_syncs: int = 10
    concurrent_group_syncs: int = 5
