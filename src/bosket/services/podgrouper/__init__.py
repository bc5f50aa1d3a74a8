"""The pod grouper: from a pod's owners to the PodGroup that it is scheduled with.

The heart is `grouping.group`, a pure function; `table` lists which kind follows which rule; `service` keeps a cluster's
PodGroups and pods as these say.

What a grouper in another package needs is exported here too.
"""

from bosket.services.podgrouper.groupers.default import base_group
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, Owner
from bosket.services.podgrouper.service import service
from bosket.services.podgrouper.workload import Grouping, Workload

__all__ = ["Grouping", "GroupingError", "Options", "Owner", "Workload", "base_group", "service"]
