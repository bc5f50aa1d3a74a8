"""scheduling.k8s.io: priority classes, and the gang API of the default scheduler, one module per version.

Each Kubernetes release has replaced the version before it, so the versions stand beside each other
(`scheduling_k8s.v1beta1.Workload`); which one a cluster serves is found by discovery.
"""

from __future__ import annotations

from bosket.api.scheduling_k8s import v1alpha1, v1alpha2, v1alpha3, v1beta1
from bosket.api.scheduling_k8s.priority_class import PriorityClass

__all__ = ["PriorityClass", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"]
