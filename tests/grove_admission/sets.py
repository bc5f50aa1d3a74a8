"""PodCliqueSets in a few words, and a cluster that answers what rules ask."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bosket.api.admission import AdmissionRequest
from bosket.api.grove import ClusterTopologyBinding, ClusterTopologyBindingSpec, TopologyLevel
from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.grove.operator_configuration_file import parse_operator_configuration
from bosket.api.object import ObjectMeta
from bosket.grove.admission.defaults import completed
from bosket.grove.admission.review_handlers import check_set
from bosket.runtime.webhook.verdict import Verdict

Json = dict[str, Any]

CONFIGURATION = parse_operator_configuration(
    "{topologyAwareScheduling: {enabled: true}, network: {autoMNNVLEnabled: true}, scheduler: {profiles: "
    "[{name: default-scheduler}, {name: kai-scheduler}, {name: volcano}, {name: lpx-scheduler}, {name: yunikorn}]}}"
)


@dataclass
class Cluster:
    """What rules may ask."""

    bindings: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"t": ("zone", "rack", "host")})
    sets: dict[str, dict[str, str]] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=lambda: {"default": "Open"})
    hyper_nodes: bool = False

    def binding(self, name: str) -> ClusterTopologyBinding | None:
        if name not in self.bindings:
            return None
        levels = tuple(TopologyLevel(domain=domain, key=f"k/{domain}") for domain in self.bindings[name])
        return ClusterTopologyBinding(metadata=ObjectMeta(name=name), spec=ClusterTopologyBindingSpec(levels=levels))

    def set_annotations(self, namespace: str, name: str) -> Mapping[str, str] | None:
        return self.sets.get(f"{namespace}/{name}")

    def volcano_queue_state(self, name: str) -> str | None:
        return self.queues.get(name)

    def has_hyper_nodes(self) -> bool:
        return self.hyper_nodes


def clique(name: str, replicas: int = 1, *, pod: Json | None = None, template: Json | None = None, **spec: Any) -> Json:
    """A clique; `template` is beside its spec, `pod` in its pods' spec."""
    pod_spec = {"containers": [{"name": "main", "image": "app:1"}], **(pod or {})}
    return {
        "name": name,
        **(template or {}),
        "spec": {"roleName": f"{name}-role", "replicas": replicas, "podSpec": pod_spec, **spec},
    }


def group(name: str, *cliques: str, **more: Any) -> Json:
    return {"name": name, "cliqueNames": list(cliques), "replicas": 1, "minAvailable": 1, **more}


def pcs(*cliques: Json, groups: tuple[Json, ...] = (), metadata: Json | None = None, **template: Any) -> Json:
    """A set as it is submitted, with what the definition of its kind fills in."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": "ml", **(metadata or {})},
        "spec": {
            "replicas": 1,
            "template": {
                "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                "cliques": list(cliques),
                "podCliqueScalingGroups": list(groups),
                **template,
            },
        },
    }


def judged(
    document: Json,
    old: Json | None = None,
    *,
    configuration: OperatorConfiguration = CONFIGURATION,
    cluster: Cluster | None = None,
) -> Verdict:
    """What is said about a set that is created, or changed from `old`."""
    request = AdmissionRequest(
        operation="CREATE" if old is None else "UPDATE",
        object=completed(document),
        oldObject=completed(old) if old is not None else None,
    )
    return check_set(request, configuration, cluster or Cluster())


def words(document: Json, old: Json | None = None, **more: Any) -> str:
    """The refusal; empty if there is none."""
    return judged(document, old, **more).words


def changed(document: Json, path: str, value: Any) -> Json:
    """A copy with another value at a path such as spec.template.cliques.0.name."""
    copied = copy.deepcopy(document)
    *steps, last = path.split(".")
    at: Any = copied
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[int(last) if isinstance(at, list) else last] = value
    return copied
