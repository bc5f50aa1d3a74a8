"""How Bosket's own containers are kept: no rights beyond those of any process, nothing written, no root.

For the chart and for what the operator deploys.
"""

from __future__ import annotations

from typing import Any, Final

#: A container's securityContext.
LOCKED_DOWN: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
