"""The operator: deploys all other services from one Config, and a scheduler for each SchedulingShard.

`plan` and `shard` compute manifests, `owned` applies them, `condition` computes status conditions; `reconciler` is the
service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.services.operator.options import Options

if TYPE_CHECKING:
    from bosket.runtime.service import Environment, Service

__all__ = ["Options", "service"]


def service(env: Environment, options: Options | None = None) -> Service:
    """The operator."""
    from bosket.services.operator.reconciler import Operator

    return Operator(env, options or Options())
