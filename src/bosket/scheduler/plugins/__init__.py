"""The table of built-in plugins, by the names of KAI's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.plugin import PluginFactory
from bosket.scheduler.plugins.backfill import Backfill
from bosket.scheduler.plugins.dynamicresources import DynamicResources
from bosket.scheduler.plugins.elastic import Elastic
from bosket.scheduler.plugins.gpu_order import GpuPack, GpuSpread
from bosket.scheduler.plugins.gpusharingorder import GpuSharingOrder
from bosket.scheduler.plugins.leading_pod import Kubeflow, Ray
from bosket.scheduler.plugins.minruntime import MinRuntime
from bosket.scheduler.plugins.multinodegang import MultiNodeGang
from bosket.scheduler.plugins.nodeavailability import NodeAvailability
from bosket.scheduler.plugins.nodelocalgreedy import NodeLocalGreedy
from bosket.scheduler.plugins.nodeplacement import NodePlacement
from bosket.scheduler.plugins.nominatednode import NominatedNode
from bosket.scheduler.plugins.numa import Numa
from bosket.scheduler.plugins.podaffinity import PodAffinityScore
from bosket.scheduler.plugins.predicates import Predicates
from bosket.scheduler.plugins.priority import Priority
from bosket.scheduler.plugins.proportion import Proportion
from bosket.scheduler.plugins.reflectjoborder import ReflectJobOrder
from bosket.scheduler.plugins.resourcetype import ResourceType
from bosket.scheduler.plugins.snapshot import Snapshot
from bosket.scheduler.plugins.subgrouporder import SubGroupOrder
from bosket.scheduler.plugins.taskorder import TaskOrder
from bosket.scheduler.plugins.topology import Topology

BUILT_IN: Mapping[str, PluginFactory] = {
    "backfill": Backfill,
    "dynamicresources": DynamicResources,
    "elastic": Elastic,
    "gpupack": GpuPack,
    "gpusharingorder": GpuSharingOrder,
    "gpuspread": GpuSpread,
    "minruntime": MinRuntime,
    "kubeflow": Kubeflow,
    "nodeavailability": NodeAvailability,
    "nodeplacement": NodePlacement,
    "nominatednode": NominatedNode,
    "numa": Numa,
    "podaffinity": PodAffinityScore,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "ray": Ray,
    "reflectjoborder": ReflectJobOrder,
    "resourcetype": ResourceType,
    "snapshot": Snapshot,
    "subgrouporder": SubGroupOrder,
    "sg-multinodegang": MultiNodeGang,
    "sg-nodelocalgreedy": NodeLocalGreedy,
    "taskorder": TaskOrder,
    "topology": Topology,
}
