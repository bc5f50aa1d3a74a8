"""The pod group controller: writes into PodGroups how their gangs fare, and what they use.

`status.status_of` is the heart, a pure function of a group and its pods; `service` keeps a cluster's groups as it says.
"""

from bosket.services.podgroup.service import Options, service

__all__ = ["Options", "service"]
