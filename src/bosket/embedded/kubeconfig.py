"""The kubeconfig of an embedded cluster, for kubectl and any other client."""

from __future__ import annotations

import base64
import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

#: What an embedded cluster is called in its kubeconfig.
CLUSTER_NAME: Final = "bosket"


def admin_kubeconfig(url: str, certificate_authority_pem: bytes, token: str) -> dict[str, Any]:
    """A kubeconfig whose only context reaches the server at `url` with `token`."""
    name = CLUSTER_NAME
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(certificate_authority_pem).decode(),
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
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            # JSON is YAML, too.
            json.dump(kubeconfig, file, indent=2)
            file.write("\n")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def belongs_to_embedded_cluster(path: Path) -> bool:
    """Whether the file is one that `write_kubeconfig` wrote: it may be overwritten, a person's own must not."""
    try:
        content = json.loads(path.read_bytes())
        return [cluster["name"] for cluster in content["clusters"]] == [CLUSTER_NAME]
    except (ValueError, KeyError, TypeError):
        return False
