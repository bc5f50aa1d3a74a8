"""The embedded Kubernetes API server."""

from bosket.apiserver.server import ApiServer

__all__ = ["ApiServer"]
