"""Admission of Grove's kinds: what PodCliqueSets are completed with, and what is refused, in Grove's words.

defaults             what a PodCliqueSet is completed with
set_rules            all rules of PodCliqueSets together: clique_, group_, sharing_, scheduler_, topology_ and
                     mnnvl_rules, startup_order; of changes: change_rules, topology_change
binding_rules        ClusterTopologyBindings
authorizer           who may change what the operator made
review_handlers      from a request to a verdict; webhook_service serves them, registration tells API servers of them

All rules are pure; what they want to know of the cluster they ask a `lookup`. The embedded cluster asks them in
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.grove.admission.options import Options

if TYPE_CHECKING:
    from bosket.runtime.service import Environment, Service

__all__ = ["Options", "service"]


def service(env: Environment, options: Options | None = None) -> Service:
    """The webhooks."""
    from bosket.grove.admission.webhook_service import admission_service  # who asks in process does without TLS

    return admission_service(env, options or Options())
