"""The node scale adjuster: makes the cluster autoscaler or Karpenter see what pods that share GPUs wait for."""

from bosket.services.node_scale.options import Options
from bosket.services.node_scale.service import service

__all__ = ["Options", "service"]
