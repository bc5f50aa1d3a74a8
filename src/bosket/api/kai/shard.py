"""kai.scheduler/v1 SchedulingShard: one scheduler for one part of the cluster, with settings of its own."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bosket.api.crd_marks import AGE, Column, Duration, NonNegativeDuration, Rule, Timestamp, schema
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.quantity import Quantity
from bosket.api.resource import Resource

_Strategy = Annotated[str, schema(enum=["binpack", "spread"])]
_GpuStrategy = Annotated[str, schema(enum=["binpack", "spread", "fragmentation"])]
_PrometheusDuration = Annotated[
    str,
    schema(pattern="^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"),
]
_Ratio = Annotated[float, schema(minimum=0, maximum=1, rules=(Rule("self > 0.0", "must be more than 0"),))]


class PlacementStrategy(Wire):
    """Whether pods are packed onto few nodes or spread over many, by what they ask for."""

    gpu: _GpuStrategy | None = None
    """For pods that ask for GPUs: binpack, also if left out; spread; or fragmentation, by which all pods are placed so
    that what stays free of GPUs can be used by the pods that the cluster sees."""
    cpu: _Strategy | None = None
    """For all other pods: binpack, also if left out, or spread."""


class MinRuntime(Wire):
    """How long a job runs at least before it can be evicted, where its queue doesn't say."""

    preemptMinRuntime: str | None = None
    """Before a job of the same queue may take its place."""
    reclaimMinRuntime: str | None = None
    """Before a job of another queue may."""


class UsageParams(Wire):
    """Which history of use counts, and how it fades."""

    halfLifePeriod: Duration | None = None
    """Use this long ago counts half; use doesn't fade if left out."""
    windowSize: _PrometheusDuration | None = None
    """How far back use counts: a Prometheus duration such as 1w, which it is if left out."""
    windowType: str | None = None
    """sliding, also if left out; tumbling, which needs tumblingWindowStartTime; or cron, which needs cronString."""
    tumblingWindowStartTime: Timestamp | None = None
    """When the first tumbling window began."""
    cronString: str | None = None
    """When a new window begins, in cron's notation."""
    fetchInterval: Duration | None = None
    """Time between two looks at the history: 1m if left out."""
    stalenessPeriod: Duration | None = None
    """Age at which data counts as stale: 5m if left out; at least the fetchInterval."""
    waitTimeout: Duration | None = None
    """How long a start waits for the first data: 1m if left out."""
    extraParams: dict[str, str] = {}
    """Parameters that depend on the kind of database, such as names of metrics."""


class UsageDBConfig(Wire):
    """Where the history of what each queue used is found."""

    clientType: str
    """The kind of database, such as prometheus."""
    connectionString: str = ""
    """Address of the database; or, instead:"""
    connectionStringEnvVar: str = ""
    """Name of the environment variable that holds the address."""
    usageParams: UsageParams | None = None


class ScenarioSearchBudgets(Wire):
    """How long the scheduler may look for victims before it gives up for this cycle; 0 is unlimited."""

    maxActionSearchDuration: dict[str, NonNegativeDuration] = {}
    """By action (reclaim, preempt, consolidation), and `default` for the others."""
    maxJobSearchDuration: NonNegativeDuration | None = None
    """For one job."""
    minJobSearchDuration: NonNegativeDuration | None = None
    """What a job gets even when its action's time is used up."""
    maxGeneratorSearchDuration: dict[str, NonNegativeDuration] = {}
    """By generator of scenarios (NodeLocalGreedy, MultiNodeGang), and `default` for the others."""


class PluginConfig(Wire):
    """Settings of one plugin; what is left out stays as it is by default."""

    enabled: bool | None = None
    priority: int | None = None
    """Plugins of higher priority come first."""
    arguments: dict[str, str] = {}
    """The plugin's own settings; they replace the default ones as a whole."""


class ActionConfig(Wire):
    """Settings of one action; what is left out stays as it is by default."""

    enabled: bool | None = None
    priority: int | None = None
    """Actions of higher priority come first."""


class SchedulingShardSpec(Wire):
    """Which nodes, queues and pod groups the scheduler looks after, and how."""

    args: dict[str, str] = {}
    """Further flags of the scheduler, by name."""
    goMemLimitRatio: _Ratio | None = None
    """Part of the memory limit that the garbage collector aims to stay under; for KAI's own scheduler."""
    goMemLimit: Quantity | None = None
    """Memory that the garbage collector aims to stay under, instead of the ratio; for KAI's own scheduler."""
    placementStrategy: PlacementStrategy | None = None
    partitionLabelValue: str = ""
    """Value of the node pool label that nodes, queues and pod groups of this shard carry; if empty: those without."""
    queueDepthPerAction: dict[str, int] = {}
    """How many jobs of each queue an action looks at, by action; all if left out."""
    minRuntime: MinRuntime | None = None
    kValue: float | None = None
    """How strongly past use lowers a queue's share of what is over; 0 ignores it, 1 if left out."""
    usageDBConfig: UsageDBConfig | None = None
    scenarioSearchBudgets: ScenarioSearchBudgets | None = None
    plugins: dict[str, PluginConfig] = {}
    """Settings of plugins, by name."""
    actions: dict[str, ActionConfig] = {}
    """Settings of actions, by name."""


class SchedulingShardStatus(Wire):
    """Whether the shard's scheduler is deployed and available."""

    conditions: tuple[Condition, ...] = ()


class SchedulingShard(KubeObject):
    """A part of the cluster with a scheduler of its own."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Partition", ".spec.partitionLabelValue"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        AGE,
    )

    spec: SchedulingShardSpec = SchedulingShardSpec()
    status: SchedulingShardStatus = SchedulingShardStatus()


SCHEDULING_SHARD = Resource(
    "kai.scheduler",
    "v1",
    "SchedulingShard",
    "schedulingshards",
    SchedulingShard,
    namespaced=False,
    subresources=("status",),
)
