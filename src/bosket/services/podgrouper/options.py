"""What an administrator can say about the pod grouper; the fields are KAI's flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.api import keys


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the pod grouper."""

    #: Pods of other schedulers are left alone.
    scheduler_name: str = keys.SCHEDULER_NAME
    queue_label_key: str = keys.QUEUE_LABEL
    #: Label that is copied from a pod to its group; empty switches that off.
    node_pool_label_key: str = keys.NODE_POOL_LABEL
    #: Go on using groups that were made under an older naming scheme.
    search_legacy_groups: bool = True
    #: Let the pods of a Knative revision wait for each other.
    knative_gang_schedule: bool = True
    #: Let Kartas say how kinds are grouped for which there is no rule here.
    karta_fallback: bool = True
    #: Where the defaults by kind are; both must be given for them to be read.
    default_priorities_configmap_name: str = ""
    default_priorities_configmap_namespace: str = ""
    #: Labels that a pod, and its namespace, must have to be grouped.
    pod_label_selector: Mapping[str, str] = field(default_factory=dict)
    namespace_label_selector: Mapping[str, str] = field(default_factory=dict)
    max_concurrent_reconciles: int = 10

    @property
    def reads_kind_defaults(self) -> bool:
        return bool(self.default_priorities_configmap_name and self.default_priorities_configmap_namespace)
