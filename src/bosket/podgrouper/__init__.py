"""The pod grouper: from a pod's owners to the PodGroup that it is scheduled with.

The heart is `grouping.group`, a pure function; `table` lists which kind follows which rule; `service` keeps a cluster's
PodGroups and pods as these say.

What a grouper in another package needs is exported here too.
"""

from bosket.podgrouper.groupers.default import base_group
from bosket.podgrouper.options import Options
from bosket.podgrouper.owner import GroupingError, Owner
from bosket.podgrouper.service import service
from bosket.podgrouper.workload import Grouping, Workload

__all__ = ["Grouping", "GroupingError", "Options", "Owner", "Workload", "base_group", "service"]
