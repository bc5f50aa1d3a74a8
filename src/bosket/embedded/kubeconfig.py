"""The kubeconfig of an embedded cluster, for kubectl and any other client."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from bosket.runtime.private_file import write_private

#: What an embedded cluster is called in its kubeconfig.
CLUSTER_NAME: Final = "bosket"
#: Under this name the kubeconfig says where the scheduler answers, as `{"url": …}`.
SCHEDULER_EXTENSION: Final = "bosket.dev/scheduler"


def admin_kubeconfig(
    url: str, certificate_authority_pem: bytes, token: str, *, scheduler_url: str = ""
) -> dict[str, Any]:
    """A kubeconfig whose only context reaches the server at `url` with `token`."""
    name = CLUSTER_NAME
    noted = {"extensions": [{"name": SCHEDULER_EXTENSION, "extension": {"url": scheduler_url}}]}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(certificate_authority_pem).decode(),
                    **(noted if scheduler_url else {}),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, kubeconfig: dict[str, Any]) -> None:
    """Put it in place in one piece, readable by its owner only: it holds a credential."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, f"{json.dumps(kubeconfig, indent=2)}\n".encode())  # JSON is YAML, too


def belongs_to_embedded_cluster(path: Path) -> bool:
    """Whether the file is one that `write_kubeconfig` wrote: it may be overwritten, a person's own must not."""
    try:
        content = json.loads(path.read_bytes())
        return [cluster["name"] for cluster in content["clusters"]] == [CLUSTER_NAME]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
