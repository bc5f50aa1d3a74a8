"""How the cycle's actions behave: what KAI has flags for. Part of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

#: As many victims of a consolidation as it takes.
NO_BOUND = -1


@dataclass(frozen=True, slots=True)
class Settings:
    """Names and defaults are those of KAI's flags."""

    #: how many jobs a consolidation may move; 0 switches it off, -1 is no bound
    max_consolidation_preemptees: int = 16
    #: whether a job that is no easier than one that failed is tried at all
    use_scheduling_signatures: bool = True
    #: whether victims that find another place count as not reclaimed
    allow_consolidating_reclaim: bool = True
    #: how long a gang may stay below its minimum; negative for ever
    default_staleness_grace_seconds: float = 60.0
    #: whether what CSI drivers have left is counted down as volumes are decided on, and not only looked at for each
    schedule_csi_storage: bool = False
    #: whether reasons say what each node lacks, and not only how many nodes lack it
    detailed_fit_errors: bool = False
