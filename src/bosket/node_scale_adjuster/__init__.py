"""The node scale adjuster: makes the cluster autoscaler or Karpenter see what pods that share GPUs wait for."""

from bosket.node_scale_adjuster.options import Options
from bosket.node_scale_adjuster.service import service

__all__ = ["Options", "service"]
