"""The operator's Deployment. It deploys everything else that runs, but for Grove's services."""

from __future__ import annotations

from bosket.install.account import OPERATOR
from bosket.install.expression import Text
from bosket.install.template import Tree
from bosket.install.workload_part import Workload, image
from bosket.install.workload_part import deployment as deployment_of


def deployment() -> Tree:
    """Two replicas by default, of which one works. It runs the services from its own image."""
    return deployment_of(Workload(OPERATOR, "operator", "operator", [Text(("--image=", image()))]))
