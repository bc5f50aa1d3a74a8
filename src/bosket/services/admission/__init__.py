"""Admission: validates and completes objects before they are stored.

`pod`, `queue`, `podgroup` and `topology` are pure; `webhook_service` serves them to an API server. The embedded cluster
calls them in process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.services.admission.options import Options, PodRules
from bosket.services.admission.pod import mutate, validate

if TYPE_CHECKING:
    from bosket.runtime.service import Environment, Service

__all__ = ["Options", "PodRules", "mutate", "service", "validate"]


def service(env: Environment, options: Options | None = None) -> Service:
    """The admission webhooks."""
    from bosket.services.admission.webhook_service import (
        admission_service,  # who asks in process does without TLS and HTTP
    )

    return admission_service(env, options or Options())
