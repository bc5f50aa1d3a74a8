"""Admission: what is refused before it is stored, and what is added to it, with sentences that say what is right.

`pod`, `queue`, `podgroup` and `topology` are pure; `service` serves them to an API server as webhooks. The embedded
cluster calls them in process.
"""

from bosket.admission.options import Options, PodRules
from bosket.admission.pod import mutate, validate

__all__ = ["Options", "PodRules", "mutate", "validate"]
