"""The node scale adjuster: makes autoscalers see what pending pods with GPU shares need."""

from bosket.services.node_scale.options import Options
from bosket.services.node_scale.service import service

__all__ = ["Options", "service"]
