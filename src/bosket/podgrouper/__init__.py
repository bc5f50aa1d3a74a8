"""The pod grouper: from a pod's owners to the PodGroup that it is scheduled with.

The heart is `grouping.group`, a pure function; `table` lists which kind follows which rule; `service` keeps a cluster's
PodGroups and pods as these say.
"""

from bosket.podgrouper.options import Options
from bosket.podgrouper.service import service

__all__ = ["Options", "service"]
